"""What a policy decided, checked before it is journalled: whatever is written must be read again (I11)."""

from pydantic import ValidationError

from schemas.base import JsonValue, canonical
from schemas.decision import Decision
from tiltyard.errors import PolicyFailed

MAX_DECISION_BYTES = 1024 * 1024
"""UTF-8 bytes of one decision as JSON. Every later view carries it, all but its memo."""

MAX_THOUGHT_BYTES = MAX_MEMO_BYTES = 64 * 1024
"""UTF-8 bytes of a thought's text, and of a memo as JSON."""

MAX_DEPTH = 100
"""Levels of nested lists and objects in a decision; readers of JSON give up not far above."""


def recordable(decision: object) -> Decision:
    """The decision as the journal and the trace will give it back.

    Text that is no Unicode (half a surrogate pair, as models write it now and then) becomes U+FFFD. Raises
    ``PolicyFailed`` for what is no decision, cannot be written as JSON, or is too large or too deep.
    """
    if not isinstance(decision, Decision):
        raise PolicyFailed(f"the policy returned {type(decision).__name__}, not a Decision")
    try:
        written = canonical(decision)
        _limit("the decision", len(written), MAX_DECISION_BYTES)
        again = Decision.model_validate_json(written.decode("utf-8", "replace"))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "decision"
        raise PolicyFailed(f"the decision cannot be recorded: {where}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise PolicyFailed(f"the decision cannot be written as JSON: {error}") from error
    _limit("thought", len(again.thought.encode()), MAX_THOUGHT_BYTES)
    _limit("memo", len(canonical(again.memo)), MAX_MEMO_BYTES)
    for field, value in (("memo", again.memo), ("submit", again.submit), *_arguments(again)):
        if _deeper_than(value, MAX_DEPTH):
            raise PolicyFailed(f"the decision cannot be recorded: {field}: more than {MAX_DEPTH} levels deep")
    return again


def _limit(field: str, size: int, limit: int) -> None:
    if size > limit:
        raise PolicyFailed(f"the decision cannot be recorded: {field}: {size} bytes, larger than {limit}")


def _arguments(decision: Decision) -> tuple[tuple[str, JsonValue], ...]:
    return tuple((f"calls.{n}.arguments", call.arguments) for n, call in enumerate(decision.calls))


def _deeper_than(value: JsonValue, levels: int) -> bool:
    layer: list[JsonValue] = [value]
    for _ in range(levels + 1):
        layer = [
            inner
            for outer in layer
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not layer:
            return False
    return True
