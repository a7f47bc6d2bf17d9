"""Whom somebody who waits at a ``connect`` or a send wants to reach, read in its memory."""

from __future__ import annotations

import os

from infra.sandboxes.supervisor.notices import CONNECT, SEND_MESSAGES, SEND_TO, argument, send_of

AF_UNSPEC, AF_INET, AF_INET6 = 0, 2, 10
NAMES = 53
"""The port at which names are asked for."""

MAPPED = bytes(10) + b"\xff\xff"
"""What an IPv4 address begins with where it is written as one of IPv6."""

ADDRESS_BYTES, HEADER_BYTES, NEXT_HEADER_BYTES = 28, 56, 64  # struct sockaddr_in6, msghdr, mmsghdr
MESSAGES_READ, NAME_BYTES = 8, 255

Destination = tuple[bytes, int]
"""(address of 4 or 16 bytes, port); an address of none is one that could not be read."""

UNREADABLE: Destination = (b"", 0)


class Sent:
    """One message: whom it names, if anybody, and how it begins."""

    __slots__ = ("begins", "to")

    def __init__(self, to: Destination | None, begins: bytes) -> None:
        self.to, self.begins = to, begins


def sent_of(notice: bytearray, memory: int) -> list[Sent]:
    """What the call would send, and to whom; a ``connect`` sends nothing. ``memory`` is that of its process.

    Raises ``OSError`` and ``OverflowError`` where nothing is at an address.
    """
    call = send_of(notice)
    if call == CONNECT:
        return [Sent(address_at(memory, argument(notice, 1), argument(notice, 2), False), b"")]
    if call == SEND_TO:
        to = address_at(memory, argument(notice, 4), argument(notice, 5))
        return [Sent(to, bytes_at(memory, argument(notice, 1), argument(notice, 2)))]
    count = min(argument(notice, 2) & 0xFFFFFFFF, MESSAGES_READ) if call == SEND_MESSAGES else 1
    return [message_at(memory, argument(notice, 1) + NEXT_HEADER_BYTES * index) for index in range(count)]


def message_at(memory: int, address: int) -> Sent:
    """A message by its ``struct msghdr``."""
    header = bytes_at(memory, address, HEADER_BYTES, HEADER_BYTES)
    name_at, name_bytes, parts_at, parts = (int.from_bytes(header[at : at + 8], "little") for at in (0, 8, 16, 24))
    first = bytes_at(memory, parts_at, 16) if parts else b""
    begins = bytes_at(memory, int.from_bytes(first[:8], "little"), int.from_bytes(first[8:], "little"))
    return Sent(address_at(memory, name_at, name_bytes & 0xFFFFFFFF), begins)


def bytes_at(memory: int, address: int, size: int, most: int = 12 + NAME_BYTES + 1) -> bytes:
    return os.pread(memory, min(size, most), address) if address and size else b""


def address_at(memory: int, address: int, size: int, sends: bool = True) -> Destination | None:
    """Whom a ``struct sockaddr`` names; ``None`` for nobody who is reached by a network."""
    data = bytes_at(memory, address, size, ADDRESS_BYTES)
    family, port = int.from_bytes(data[:2], "little"), int.from_bytes(data[2:4], "big")
    if len(data) >= 8 and (family == AF_INET or (family == AF_UNSPEC and sends)):  # as Linux reads it
        return data[4:8], port
    if family != AF_INET6 or len(data) < 24:
        return None
    whole = data[8:24]
    return (whole[12:] if whole.startswith(MAPPED) else whole), port


def is_elsewhere(to: Destination) -> bool:
    """Whether it is told of: nobody in the sandbox, or somebody who is asked for names."""
    address, port = to
    here = address[:1] == b"\x7f" if len(address) == 4 else address == bytes(15) + b"\x01"
    unspecified = bool(address) and not any(address)  # that is here, too
    return port == NAMES or not (here or unspecified)


def text_of(address: bytes) -> str:
    import _socket  # only where it is needed: most sandboxes reach for nobody

    if not address:
        return ""
    return _socket.inet_ntop(AF_INET if len(address) == 4 else AF_INET6, address)


def name_asked(query: bytes) -> str:
    """The name that a query of DNS asks for, over UDP; empty where it is none."""
    if len(query) < 17 or query[2] & 0x80 or int.from_bytes(query[4:6], "big") == 0:
        return ""
    labels, at = [], 12
    while at < len(query) and 0 < query[at] < 64 and at + query[at] < len(query):
        labels.append(query[at + 1 : at + 1 + query[at]])
        at += 1 + query[at]
    return b".".join(labels).decode("ascii", "backslashreplace") if at < len(query) and query[at] == 0 else ""
