"""What a sandbox of this machine holds, told from inside: run in one, it tries what must not work.

Standard library only: it is handed to the sandbox's interpreter as text, with the number of the descriptor to which
it writes what it found.
"""

import ctypes
import json
import os
import resource
import socket
import sys

CLONE_NEWUSER = 0x10000000
AF_VSOCK = 40
FOLDERS = ("/", "/dev", "/usr", "/etc", "/opt")
SCORE = "/proc/self/oom_score_adj"


def found() -> dict[str, object]:
    """Everything that the host judges the sandbox by, as JSON data."""
    return {
        "version": list(sys.version_info[:2]),
        "ids": [os.getuid(), os.getgid(), os.getpid()],
        "writable_bytes": {path: _size(path) for path in ("/work", "/tmp", "/dev/shm")},  # noqa: S108
        "writable_files": {path: os.statvfs(path).f_files for path in ("/work", "/tmp", "/dev/shm")},  # noqa: S108
        "written": [path for path in (*FOLDERS, SCORE) if _writes(path)],
        "interfaces": sorted(_interfaces()),
        "routes": _routes(),
        "vsock": _opens(AF_VSOCK),
        "namespaces": ctypes.CDLL(None).unshare(CLONE_NEWUSER) == 0,
        "status": _status("CapEff", "CapBnd", "NoNewPrivs", "Seccomp"),
        "processes": _forks(limit=8),
    }


def _size(path: str) -> int:
    about = os.statvfs(path)
    return about.f_blocks * about.f_frsize


def _writes(path: str) -> bool:
    file = os.path.join(path, "probe") if os.path.isdir(path) else path
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT))
    except OSError:
        return False
    return True


def _interfaces() -> list[str]:
    with open("/proc/net/dev") as lines:
        return [line.partition(":")[0].strip() for line in lines if ":" in line]


def _routes() -> int:
    with open("/proc/net/route") as lines:
        return len(lines.readlines()) - 1


def _opens(family: int) -> bool:
    try:
        socket.socket(family, socket.SOCK_STREAM).close()
    except OSError:
        return False
    return True


def _status(*names: str) -> dict[str, str]:
    with open("/proc/self/status") as lines:
        fields = dict(line.rstrip("\n").split(":\t", 1) for line in lines if ":\t" in line)
    return {name: fields.get(name, "") for name in names}


def _forks(limit: int) -> int:
    """How many processes there can be, this one included, when no more than ``limit`` may be."""
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    children: list[int] = []
    try:
        while len(children) < 2 * limit:
            child = os.fork()
            if not child:
                os._exit(0)  # it still counts, as long as nobody waits for it
            children.append(child)
    except OSError:
        pass
    return len(children) + 1


if __name__ == "__main__":
    told = json.dumps(found()).encode() + b"\n"
    os.write(int(sys.argv[1]), told)
