"""The lines that a policy is sent. A finished turn is written as JSON once, however many views carry it."""

import asyncio
import json
from dataclasses import dataclass, field

from schemas.view import Turn, View

__all__ = ["Questions"]


@dataclass
class Questions:
    """The questions to one policy. It remembers the transcript that it last wrote, with its text."""

    _turns: list[Turn] = field(default_factory=list)
    _text: bytearray = field(default_factory=bytearray)

    async def line(self, view: View) -> bytes:
        """One ASCII line, whatever the view holds. The event loop is free between two turns that are written."""
        if not self._continued_by(view.transcript):
            self._turns, self._text = [], bytearray()
        for turn in view.transcript[len(self._turns) :]:
            self._text += b", " if self._turns else b""
            self._text += _ascii(turn.model_dump(mode="json"))
            self._turns.append(turn)
            await asyncio.sleep(0)
        rest = _ascii(view.model_dump(mode="json", exclude={"transcript"}))
        return b'{"type": "act", "view": {"transcript": [%b], %b}\n' % (bytes(self._text), rest[1:])

    def _continued_by(self, transcript: tuple[Turn, ...]) -> bool:
        """Whether the transcript begins with what was written. The same objects in one slice, equal ones later."""
        known = len(self._turns)
        if transcript[:known] != tuple(self._turns):  # identity is looked at first
            return False
        self._turns[:] = transcript[:known]
        return True


def _ascii(value: object) -> bytes:
    return json.dumps(value).encode("ascii")
