"""What outlives its makers in a network namespace, seen from outside: what the kernel remembers of its talks.

Sockets end with whoever has them. What is kept beyond that are measures of connections by their address, which
whoever comes next can list, and labels of flows, which stay for some minutes.
"""

import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FLOW_LABELS = "ip6_flowlabel"
"""Below ``/proc/PID/net``: a line for each, after the heading."""

_CLONE_NEWNET = 0x40000000
_GENERIC, _CONTROL = 16, 16  # the protocol of families that have names, and the family that tells them
_REQUEST, _DUMP = 1, 0x300
_ERROR, _DONE = 2, 3
_GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 3, 1, 2
_GET_METRICS, _ADDRESSES = 1, (1, 2)  # of IPv4 and of IPv6
_HEADER, _GENERIC_HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBH"), struct.Struct("=HH")
_MOST_BYTES, _LIMIT_S = 1 << 20, 5.0


def remembered(pid: int) -> tuple[str, ...]:
    """What is kept in the network namespace of a process, each in a line. Raises ``OSError``.

    In a thread that enters the namespace, and ends with it.
    """
    with ThreadPoolExecutor(1) as thread:
        measured = thread.submit(lambda: sorted(_measured(pid))).result()
    labels = Path(f"/proc/{pid}/net", FLOW_LABELS)
    lines = labels.read_text().splitlines()[1:] if labels.exists() else []
    return (
        *(f"connections with {address}" for address in measured),
        *(f"flow {' '.join(one.split())}" for one in lines),
    )


def _measured(pid: int) -> Iterator[str]:
    """Addresses of which the kernel keeps measures of connections."""
    with open(f"/proc/{pid}/ns/net") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _GENERIC) as kernel:
        kernel.settimeout(_LIMIT_S)
        kernel.bind((0, 0))
        if (family := _family(kernel, b"tcp_metrics\0")) is None:
            return  # a kernel that keeps none
        for message in _asked(kernel, family, _DUMP, _GENERIC_HEADER.pack(_GET_METRICS, 1, 0)):
            for kind, value in _attributes(message):
                if kind in _ADDRESSES:
                    yield socket.inet_ntop(socket.AF_INET if len(value) == 4 else socket.AF_INET6, value)


def _family(kernel: socket.socket, name: bytes) -> int | None:
    """The number of a family; ``None`` where the kernel has none of this name."""
    padded = name + bytes(-len(name) % 4)
    body = _GENERIC_HEADER.pack(_GET_FAMILY, 1, 0) + _ATTRIBUTE.pack(4 + len(name), _FAMILY_NAME) + padded
    try:
        (message,) = _asked(kernel, _CONTROL, 0, body)
    except FileNotFoundError:
        return None
    return int(struct.unpack_from("=H", dict(_attributes(message))[_FAMILY_ID])[0])


def _asked(kernel: socket.socket, kind: int, flags: int, body: bytes) -> Iterator[bytes]:
    """What the kernel answers, message by message. Raises ``OSError``: the error that it answers, or a timeout."""
    kernel.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 1, 0) + body)
    while True:
        for answered, message in _messages(kernel.recv(_MOST_BYTES)):
            if answered == _DONE:
                return
            if answered == _ERROR:
                number = -struct.unpack_from("=i", message)[0]
                raise OSError(number, os.strerror(number))
            yield message
        if not flags & _DUMP:
            return


def _messages(told: bytes) -> Iterator[tuple[int, bytes]]:
    """Kinds of messages, and what follows their headers."""
    while len(told) >= _HEADER.size:
        size, kind, *_ = _HEADER.unpack_from(told)
        yield kind, told[_HEADER.size : size]
        told = told[max(size, _HEADER.size) + -size % 4 :]


def _attributes(message: bytes) -> Iterator[tuple[int, bytes]]:
    told = message[_GENERIC_HEADER.size :]
    while len(told) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(told)
        yield kind, told[_ATTRIBUTE.size : size]
        told = told[max(size, _ATTRIBUTE.size) + -size % 4 :]
