"""Frames on asyncio's streams: two lengths, then that many bytes of JSON and of a tail.

Bytes are not written into the JSON: each stands there as ``{"bytes": COUNT}``, and the tail has them in that order.
"""

import asyncio
import json
import struct
from typing import Any

from infra.sandboxes.supervisor.limits import MAX_JSON_BYTES, MAX_TAIL_BYTES
from tiltyard.errors import BadInput

HEAD = struct.Struct(">II")
BUFFER_BYTES = 2**20
"""What a stream takes in before it lets the other side wait; a frame may be longer."""


class Garbage(Exception):
    """What came is no frame; nothing that follows can be understood."""


def frame_of(message: dict[str, Any]) -> bytes:
    """A message as a frame. Raises ``BadInput`` for one that is too large: the other side would hang up."""
    tail: list[bytes] = []

    def apart(value: object) -> dict[str, int]:
        if not isinstance(value, bytes):
            raise TypeError(f"{type(value).__name__} is no JSON")
        tail.append(value)
        return {"bytes": len(value)}

    body = json.dumps(message, separators=(",", ":"), default=apart).encode()
    size = sum(map(len, tail))
    if len(body) > MAX_JSON_BYTES or size > MAX_TAIL_BYTES:
        raise BadInput(
            f"{len(body)} bytes of JSON and {size} of files are more than fit into a frame",
            field=str(message.get("do", "answer")),
            fix=f"send at most {MAX_JSON_BYTES} and {MAX_TAIL_BYTES}",
        )
    return b"".join((HEAD.pack(len(body), size), body, *tail))


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message; ``None`` at the end. Raises ``Garbage``."""
    try:
        length, size = HEAD.unpack(await reader.readexactly(HEAD.size))
        if length > MAX_JSON_BYTES or size > MAX_TAIL_BYTES:
            raise Garbage(f"a frame of {length} and {size} bytes")
        body = await reader.readexactly(length)
        message = _put_together(body, await reader.readexactly(size))
    except asyncio.IncompleteReadError:
        return None
    except (ValueError, RecursionError) as error:
        raise Garbage(f"no JSON: {error}") from None
    if not isinstance(message, dict) or not isinstance(message.get("id"), int):
        raise Garbage("no object with an id")
    return message


def _put_together(body: bytes, tail: bytes) -> Any:
    """Raises ``ValueError`` where the tail is not what the JSON says that it is."""
    at = 0

    def back(value: dict[str, Any]) -> Any:
        nonlocal at
        if type(size := value.get("bytes")) is not int or len(value) != 1:
            return value
        at += size
        if not 0 <= size <= at <= len(tail):
            raise ValueError("the tail is shorter than it says")
        return tail[at - size : at]

    message = json.loads(body, object_hook=back)
    if at != len(tail):
        raise ValueError("the tail is longer than it says")
    return message
