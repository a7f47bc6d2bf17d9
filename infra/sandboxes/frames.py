"""Frames on asyncio's streams: a length, then that many bytes of JSON."""

import asyncio
import json
from typing import Any

from infra.sandboxes.supervisor import MAX_FRAME_BYTES

HEAD_BYTES = 4
BUFFER_BYTES = 2**20
"""What a stream takes in before it lets the other side wait; a frame may be longer."""


class Garbage(Exception):
    """What came is no frame; nothing that follows can be understood."""


def frame_of(message: dict[str, Any]) -> bytes:
    """A message as a frame."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return len(body).to_bytes(HEAD_BYTES, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message; ``None`` at the end. Raises ``Garbage``."""
    try:
        length = int.from_bytes(await reader.readexactly(HEAD_BYTES), "big")
        if length > MAX_FRAME_BYTES:
            raise Garbage(f"a frame of {length} bytes")
        message = json.loads(await reader.readexactly(length))
    except asyncio.IncompleteReadError:
        return None
    except (ValueError, RecursionError) as error:
        raise Garbage(f"no JSON: {error}") from None
    if not isinstance(message, dict) or not isinstance(message.get("id"), int):
        raise Garbage("no object with an id")
    return message
