"""Values cut to a size, with what is missing counted and not hidden."""

from schemas.base import JsonValue, canonical
from schemas.observation import Observation

MAX_CODE = 200
"""Characters of an observation's code. It is a short word, unless a world or a task file makes it long."""

MAX_CHARACTER_BYTES = 4


def clip(observation: Observation, limit: int) -> Observation:
    """An observation of at most ``limit`` bytes of content and of message; what was cut is counted, not hidden."""
    content, cut_bytes = clipped(observation.content, limit)
    kept = {"message": head(observation.message, limit), "code": observation.code[:MAX_CODE]}
    cut_bytes += sum(_size(getattr(observation, name)) - _size(text) for name, text in kept.items())
    if not cut_bytes:
        return observation
    cut = {"content": content, "truncated_bytes": observation.truncated_bytes + cut_bytes}
    return observation.model_copy(update={**kept, **cut})


def as_shown(observation: Observation, shown: Observation) -> tuple[Observation, ...]:
    """What it may have been shown as, were it ``shown``, under whichever limit: whole where nothing was cut there,
    else cut to as many bytes, or the few more that the next character did not fit into."""
    if not shown.truncated_bytes:
        return (observation,)
    text = shown.content if isinstance(shown.content, str) else canonical(shown.content).decode("utf-8", "replace")
    least = max(_size(text), _size(shown.message))
    return tuple(clip(observation, limit) for limit in range(least, least + MAX_CHARACTER_BYTES))


def clipped(content: JsonValue, limit: int) -> tuple[JsonValue, int]:
    """(the content, or as much of it or of its JSON text as may stay; bytes that were cut)."""
    size = len(canonical(content))
    if size <= limit:
        return content, 0
    kept = head(content if isinstance(content, str) else canonical(content).decode("utf-8", "replace"), limit)
    return kept, size - _size(kept)


def head(text: str, limit: int) -> str:
    """As much of a text as ``limit`` bytes hold, in whole characters."""
    return text if _size(text) <= limit else text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def _size(text: str) -> int:
    """Bytes of a text, in which half a character counts as one."""
    return len(text.encode("utf-8", "replace"))
