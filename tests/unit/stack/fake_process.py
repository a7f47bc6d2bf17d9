"""Stands in for every process of a stack: ``fake_process.py ROLE STEERING_FOLDER [arguments of the role]``.

A file in the steering folder makes it misbehave: ``ROLE.dies`` ends it at once, ``ROLE.stubborn`` makes it ignore
SIGTERM, ``ROLE.slow`` makes it take its time and then leave ``ROLE.ended``, ``ROLE.silent`` keeps it from becoming
ready; ``busy`` holds the number of running workflows. As long as it runs it shows it as the true process does.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path


def serve(listener: socket.socket) -> None:
    listener.listen()
    while True:
        listener.accept()[0].close()


def touch_for_ever(marker: str) -> None:
    while True:
        with suppress(FileNotFoundError):
            os.utime(marker)
        time.sleep(0.1)


def ask(address: str) -> None:
    """Connect and wait until the server closes, which one that was stopped does not."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as question:
        question.recv(1)


def note_settings(role: str, steering: Path) -> None:
    ours = {name: value for name, value in os.environ.items() if name.startswith("TILTYARD_")}
    (steering / f"{role}.settings").write_text(json.dumps(ours))


def temporal(arguments: list[str], steering: Path) -> None:
    if arguments[0] == "server":
        note_settings("temporal", steering)
        serve(socket.create_server(("127.0.0.1", int(arguments[arguments.index("--port") + 1]))))
    if "health" in arguments:
        ask(arguments[arguments.index("--address") + 1])
    if arguments[0] == "workflow":
        busy = steering / "busy"
        print(json.dumps({"count": busy.read_text()} if busy.exists() else {}))


def listener(role: str, arguments: list[str], steering: Path) -> None:
    note_settings(role, steering)
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(arguments[0])
    threading.Thread(target=touch_for_ever, args=(arguments[0],), daemon=True).start()
    serve(bound)


def worker(arguments: list[str], steering: Path) -> None:
    (steering / "worker.address").write_text(os.environ["TILTYARD_TEMPORAL_ADDRESS"])
    note_settings("worker", steering)
    if not (steering / "worker.silent").exists():
        Path(arguments[0]).write_text(str(os.getpid()))
    touch_for_ever(arguments[0])


def end_slowly(mark: Path) -> None:
    time.sleep(2)
    mark.touch()
    sys.exit()


ROLES: dict[str, Callable[[list[str], Path], None]] = {
    "temporal": temporal,
    "world": partial(listener, "world"),
    "sandboxes": partial(listener, "sandboxes"),
    "worker": worker,
}


def main() -> None:
    role, steering, arguments = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    if (steering / f"{role}.dies").exists():
        sys.exit(f"the {role} cannot go on: the fake was told to die")
    if (steering / f"{role}.stubborn").exists():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if (steering / f"{role}.slow").exists():
        signal.signal(signal.SIGTERM, lambda *_: end_slowly(steering / f"{role}.ended"))
    ROLES[role](arguments, steering)


if __name__ == "__main__":
    main()
