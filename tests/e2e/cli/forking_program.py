"""The program, imported once: each call is a process of its own that this one forks.

Run as a script with a socket as its standard input. What a call is then is what ``tiltyard`` is: arguments, an
environment, a folder, three streams and an exit code; only the imports, which take longer than most commands, have
been done before. That they work from nothing is shown by the calls that start the program itself.
"""

import gc
import json
import os
import runpy
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path

from ops.cli.main import COMMANDS

USED_LATER = (
    "alembic.script",
    "infra.local.databases",
    "infra.local.logs",
    "infra.local.stack",
    "infra.policies.source",
    "infra.stores.imports",
    "ops.cli.checks",
    "ops.cli.described",
    "ops.cli.looking",
    "ops.cli.on_demand",
    "ops.cli.results",
    "ops.cli.session",
    "ops.cli.showing",
    "ops.cli.trials",
    "ops.cli.watching",
    "rich.console",
    "rich.table",
    "tiltyard.importing.tau2",
    "tiltyard.suite",
    "tiltyard.worlds.registry",
    "tiltyard.worlds.verify",
    "workers.bootstrap.ground",
)
"""What commands import when they run."""

STREAMS = 3
MESSAGE_BYTES = 2**18


def prepare() -> None:
    for name in (*(place.partition(":")[0] for place, _ in COMMANDS.values()), *USED_LATER):
        import_module(name)
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, "a process with threads cannot be forked"
    gc.freeze()  # a collection in a child would copy all that was imported


def become(call: dict[str, object], streams: list[int]) -> None:
    """In the fork: be the program, as it was called."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(str(call["folder"]))
    environment, arguments = call["environment"], call["arguments"]
    assert isinstance(environment, dict)
    assert isinstance(arguments, list)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[:] = arguments
    sys.path[0] = str(Path(arguments[0]).parent)
    runpy.run_path(arguments[0], run_name="__main__")


def serve(calls: socket.socket) -> None:
    """One call after the other, until there are no more: each is answered with its exit code."""
    while True:
        message, streams, _, _ = socket.recv_fds(calls, MESSAGE_BYTES, STREAMS)
        if not message:
            return
        child = os.fork()
        if not child:
            calls.close()
            become(json.loads(message), streams)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        calls.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C at pytest ends it by the end of its socket
    prepare()
    serve(socket.socket(fileno=os.dup(0)))
