"""A recording: what the policy decided and people answered, taken from an episode's trace and kept as an object."""

from pydantic import ValidationError

from schemas.base import canonical
from schemas.journal import TurnRecord
from schemas.recording import Recording
from tiltyard.errors import EnvironmentFailed, InputMissing, ObjectsUnreachable
from tiltyard.ports import Objects
from tiltyard.trace import Trace


def recording_of(trace: Trace) -> Recording:
    """The recording of an episode that has ended. A turn that was open then is left out: what it would have been
    shown is not known."""
    finished = [turn for turn in trace.evidence.turns if turn.observations is not None]
    return Recording(
        decisions=tuple(turn.decision for turn in finished),
        answers=tuple(_answer(turn) for turn in finished if turn.decision.ask is not None),
        ending=trace.evidence.ending,
    )


def _answer(turn: TurnRecord) -> str | None:
    """What the question of this turn was answered; ``None`` where nobody did."""
    (shown,) = turn.observations or ()
    return shown.content if shown.status == "ok" and isinstance(shown.content, str) else None


async def keep(objects: Objects, recording: Recording) -> str:
    """The name of the object that holds it; equal recordings have the same."""
    return await objects.put(canonical(recording))


async def load(objects: Objects, name: str) -> Recording:
    """What ``keep`` named so. Raises ``InputMissing`` where that is gone, damaged or of another kind, and
    ``ObjectsUnreachable``."""
    try:
        return Recording.model_validate_json(await objects.get(name))
    except ObjectsUnreachable:
        raise
    except EnvironmentFailed as error:
        raise InputMissing(f"the recording {name}", str(error)) from error
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"])) or "the whole"
        raise InputMissing(f"the recording {name}", f"{where}: {problem['msg']}") from None
