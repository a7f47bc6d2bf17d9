"""Calls of the program by forks of one process that has imported it."""

import atexit
import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

SCRIPT = Path(__file__).with_name("forking_program.py")


def call(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float
) -> tuple[int, str, str]:
    """Run a command line without input until it has ended and nobody has its outputs any more.

    Returns its exit code and both outputs. Raises ``TimeoutError``.
    """
    deadline = time.monotonic() + timeout_s
    asked = json.dumps({"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)})
    (out, to_out), (err, to_err), nothing = os.pipe(), os.pipe(), os.open(os.devnull, os.O_RDONLY)
    calls = _program()
    try:
        socket.send_fds(calls, [asked.encode()], [nothing, to_out, to_err])
        for handed in (nothing, to_out, to_err):
            os.close(handed)
        said = _read([out, err], deadline)
        calls.settimeout(max(deadline - time.monotonic(), 0.001))
        answer = calls.recv(64)
    finally:
        os.close(out)
        os.close(err)
    assert answer, "the program that forks has ended"
    return int(json.loads(answer)), said[0].decode(), said[1].decode()


def _read(pipes: Sequence[int], deadline: float) -> tuple[bytes, bytes]:
    """All that comes out of two pipes until their ends."""
    said: dict[int, list[bytes]] = {pipe: [] for pipe in pipes}
    with selectors.DefaultSelector() as waiting:
        for pipe in pipes:
            waiting.register(pipe, selectors.EVENT_READ)
        while waiting.get_map():
            if time.monotonic() > deadline:
                raise TimeoutError("the command or what it has started still has its outputs")
            for key, _ in waiting.select(1):
                said[key.fd].append(os.read(key.fd, 2**16))
                if not said[key.fd][-1]:
                    waiting.unregister(key.fd)
    out, err = pipes
    return b"".join(said[out]), b"".join(said[err])


@cache
def _program() -> socket.socket:
    """The way to the program of this session, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        running = subprocess.Popen([sys.executable, str(SCRIPT)], stdin=theirs.fileno())
    atexit.register(running.wait, 10)
    atexit.register(ours.close)
    return ours
