"""Who holds the other end of a connection within the sandbox."""

from __future__ import annotations

import os

from infra.sandboxes.supervisor.files import Agent
from infra.sandboxes.supervisor.limits import HOLDER_LOOKS
from infra.sandboxes.supervisor.processes import Process, look

SOCKET_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
MAX_TABLE_BYTES = 2**20


def caller_of(host: str, port: int, agent: Agent, looks: int = HOLDER_LOOKS) -> Process | None:
    """The process at the other end, which is at this address; ``None`` where nobody can be seen to hold it, or so
    many descriptors are others'."""
    inode = inode_of(host, port)
    return holder_of(inode, agent, looks) if inode else None


def inode_of(host: str, port: int) -> str:
    """The socket that is bound to this address and connected; empty when there is none."""
    numbers = bytes(int(part) for part in host.split("."))
    wanted = f"{int.from_bytes(numbers, 'little'):08X}:{port:04X}"
    for table in SOCKET_TABLES:
        for line in whole_table(table).splitlines():
            fields = line.split()
            if len(fields) > 9 and fields[1].endswith(wanted) and fields[9] != "0":
                return fields[9]
    return ""


def whole_table(path: str) -> str:
    """What the kernel gives in pieces."""
    data = bytearray()
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""  # a kernel without this kind of sockets
    try:
        while len(data) < MAX_TABLE_BYTES and (piece := os.read(fd, 65_536)):
            data += piece
    finally:
        os.close(fd)
    return data.decode("ascii", "replace")


def holder_of(inode: str, agent: Agent, looks: int) -> Process | None:
    """A process that has this socket open."""
    me, wanted = os.getpid(), f"socket:[{inode}]"
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == me:
            continue
        with agent:  # only its own are open to us where we are another user
            try:
                found = [os.readlink(f"/proc/{name}/fd/{fd}") for fd in os.listdir(f"/proc/{name}/fd")[:looks]]
            except OSError:
                continue  # it has ended, closed one meanwhile, or closed itself to others
        if wanted in found:
            return look(int(name))
        looks -= len(found)
        if looks <= 0:
            break
    return None
