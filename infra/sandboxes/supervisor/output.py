"""What is kept of the output of a command."""

from __future__ import annotations

from infra.sandboxes.supervisor.hashing import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Capture:
    """What is kept of one output: its first and its last half of ``limit`` bytes, and the digest of all."""

    def __init__(self, limit: int) -> None:
        self.limit, self.total, self._digest = limit, 0, sha256()
        self.head, self.tail = bytearray(), bytearray()

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        self._digest.update(data)
        room = self.limit // 2 - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > 2 * self.limit:  # not at every piece: a deletion moves all that is kept
            del self.tail[: -self.limit]

    def record(self) -> dict[str, Any]:
        """As ``schemas.told.OutputRecord``."""
        return {"digest": f"sha256:{self._digest.hexdigest()}", "total_bytes": self.total}

    def output(self) -> dict[str, Any]:
        """As ``schemas.operation.Output``."""
        if self.total <= self.limit:
            text, invalid = decoded(self.head + self.tail)
            return {"text": text, **self.record(), "cut_bytes": 0, "invalid_utf8": invalid}
        head, tail = whole_end(self.head), whole_begin(self.tail[-(self.limit - self.limit // 2) :])
        cut = self.total - len(head) - len(tail)
        (first, one), (last, other) = decoded(head), decoded(tail)
        text = f"{first}\n[{cut} bytes cut]\n{last}"
        return {"text": text, **self.record(), "cut_bytes": cut, "invalid_utf8": one or other}


def decoded(data: bytes | bytearray) -> tuple[str, bool]:
    try:
        return data.decode("utf-8"), False
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), True


def whole_end(data: bytearray) -> bytearray:
    """Without a character at the end that the cut went through."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return data[:-back] if needed > back else data
    return data


def whole_begin(data: bytearray) -> bytearray:
    """Without the rest of a character at the beginning that the cut went through."""
    for start in range(min(4, len(data))):
        if data[start] & 0xC0 != 0x80:
            return data[start:]
    return data
