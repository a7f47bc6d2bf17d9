"""Ports below 1024 in the network of a sandbox. Elsewhere it takes a right to listen there; here is nobody else."""

import subprocess
import sys

PROGRAM = """
import ctypes, fcntl, os, sys
libc = ctypes.CDLL(None, use_errno=True)
network = os.open(f"/proc/{sys.argv[1]}/ns/net", os.O_RDONLY)
rights = fcntl.ioctl(network, 0xB701)  # NS_GET_USERNS: only in there has anybody a right to it
owner = int.from_bytes(fcntl.ioctl(rights, 0xB704, bytes(4)), sys.byteorder)  # NS_GET_OWNER_UID: whoever made it
if os.getuid() == 0:
    os.setresuid(owner, owner, owner)
for namespace, kind in ((rights, 0x10000000), (network, 0x40000000)):
    if libc.setns(namespace, kind):
        sys.exit(os.strerror(ctypes.get_errno()))
with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w") as start:
    start.write("0")
"""
"""In a process of its own: one with several threads cannot enter the namespace of another user."""


def open_low_ports(pid: int) -> None:
    """Let everybody in the network of this process listen on any port. Raises ``OSError``."""
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(pid)]
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if ended.returncode:
        said = ended.stderr.strip().splitlines()[-1:] or [f"it ended with {ended.returncode}"]
        raise OSError(f"the ports of a sandbox cannot be opened: {said[0]}")
