"""Knocking at the door of a supervisor in a container, and asking who opens: short questions, in a thread."""

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra.sandboxes.frames import HEAD, frame_of
from infra.sandboxes.supervisor.limits import MAX_JSON_BYTES
from tiltyard.errors import EnvironmentFailed, NotPristine

DOOR = "door"

START_S, PAUSE_S = 20.0, 0.002
"""How long a supervisor may take to open its door, in seconds, and how often it is looked for."""

ANSWER_S = 10.0
"""How long it may take to say that it is there. It has nothing else to do."""

NOBODYS = {"set_up": False, "sealed": False, "operations": 0, "programs": 0, "reads": 0, "attempts": 0}
"""What a supervisor says of itself that is no sandbox yet, or no more."""


def knock(folder: Path, lives: Callable[[], bool]) -> socket.socket:
    """A connection with the supervisor whose door is in ``folder``. Raises ``EnvironmentFailed``."""
    until = time.monotonic() + START_S
    door = socket.socket(socket.AF_UNIX)
    # By a descriptor of the folder: the path of a socket has no more than 107 bytes.
    inside = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            try:
                door.connect(f"/proc/self/fd/{inside}/{DOOR}")
                return door
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > until or not lives():
                    door.close()
                    raise EnvironmentFailed("the supervisor of a container did not open its door") from None
                time.sleep(PAUSE_S)
    finally:
        os.close(inside)


def knock_at_nobodys(folder: Path, lives: Callable[[], bool]) -> socket.socket:
    """The same, of a supervisor that knows of no sandbox. Raises ``EnvironmentFailed``."""
    door = knock(folder, lives)
    try:
        require_nobodys(door)
    except BaseException:
        door.close()
        raise
    return door


def require_nobodys(door: socket.socket) -> None:
    """That the supervisor answers, and knows of no sandbox. Raises ``NotPristine``."""
    try:
        said = _ping(door)
    except (OSError, ValueError) as error:
        raise NotPristine(f"its supervisor does not answer: {error}") from error
    if said != NOBODYS:
        raise NotPristine(f"its supervisor remembers a sandbox: {str(said)[:200]}")


def _ping(door: socket.socket) -> Any:
    door.settimeout(ANSWER_S)
    door.sendall(frame_of({"id": 1, "do": "ping"}))
    length, size = HEAD.unpack(_read(door, HEAD.size))
    if length > MAX_JSON_BYTES or size:
        raise ValueError(f"a frame of {length} and {size} bytes")
    said = json.loads(_read(door, length))
    door.settimeout(None)
    return said.get("ok") if isinstance(said, dict) else said


def _read(door: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = door.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("it has hung up")
        data += piece
    return data
