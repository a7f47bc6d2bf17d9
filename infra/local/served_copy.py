"""A Temporal server over a copy of what a stack that is down has kept: to read histories, and to change nothing."""

import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from infra.local.processes import spawn
from infra.local.temporal import HOST, SERVER, ask, free_port, temporal_binary
from tiltyard.errors import StackFailed

START_S = 60.0
STOP_S = 5.0


@contextmanager
def served_copy(database: Path, namespace: str) -> Iterator[str]:
    """The address of a server over a copy of the database; both are gone afterwards.

    Call it from the main thread of a process that has no other one: see ``spawn``. Raises ``StackFailed`` when the
    database cannot be read, or the server does not start.
    """
    binary = temporal_binary()
    with tempfile.TemporaryDirectory(prefix="tiltyard-histories-") as folder:
        copy = Path(folder) / "temporal.db"
        _copied(database, copy)
        port = free_port(Path(folder) / "port")
        argv = [binary, *SERVER, "--port", str(port), "--db-filename", copy.name]
        server = spawn(argv, Path(folder) / "log", {}, copy.parent)
        try:
            _until_ready(binary, f"{HOST}:{port}", namespace)
            yield f"{HOST}:{port}"
        finally:
            server.terminate()
            try:
                server.wait(STOP_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _copied(database: Path, copy: Path) -> None:
    try:
        reading = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=10)
        with closing(reading) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    except sqlite3.Error as error:
        raise StackFailed(f"{database} cannot be read: {error}. Run `tiltyard doctor`") from error


def _until_ready(binary: str, address: str, namespace: str) -> None:
    deadline = time.monotonic() + START_S
    while ask((binary,), address, ("operator", "namespace", "describe", namespace)) is None:
        if time.monotonic() > deadline:
            raise StackFailed(f"Temporal was not ready within {START_S:g} s over a copy of its database")
        time.sleep(0.1)
