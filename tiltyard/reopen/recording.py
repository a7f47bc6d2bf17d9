"""A recording: what the policy decided and people answered, taken from an episode's trace."""

from schemas.journal import TurnRecord
from schemas.recording import Recording
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
