"""Two episodes of one task side by side: where their decisions part, and what came of it."""

from itertools import zip_longest

from schemas.base import JsonObject
from schemas.decision import Decision
from schemas.episode import EpisodeResult
from schemas.replay import Difference
from schemas.story import Apart, ApartSide
from tiltyard.errors import BadInput
from tiltyard.reopen.compare import first_difference
from tiltyard.reopen.departing import tasks_differ
from tiltyard.reopen.told_turns import CallFacts, told_turn
from tiltyard.trace import Trace

UNDECIDED = {"thought", "memo", "tokens"}
"""Parts of a decision that do nothing."""


def apart(left: Trace, left_result: EpisodeResult, right: Trace, right_result: EpisodeResult) -> Apart:
    """Where the episodes part. Raises ``BadInput`` for episodes of different tasks."""
    task, other = left.evidence.spec.task_id, right.evidence.spec.task_id
    if task != other:
        raise BadInput(
            f"is an episode of {other}, and {left_result.episode_id} is one of {task}",
            field=f"--diff {right_result.episode_id}",
            fix=f"`tiltyard episodes list` names those of {task}",
        )
    turn = first_decision_apart(left, right)
    difference = first_difference(left, right)
    return Apart(
        task=task,
        same_task=left.evidence.spec.task_digest == right.evidence.spec.task_digest,
        differs=tasks_differ(left.task, right.task),
        left=_side(left, left_result, turn),
        right=_side(right, right_result, turn),
        turn=turn,
        before=difference if difference is not None and not _is_parting(difference, turn) else None,
    )


def first_decision_apart(left: Trace, right: Trace) -> int | None:
    """The first turn in which they do something else, one that only one of them has included."""
    pairs = zip_longest(left.evidence.turns, right.evidence.turns)
    for number, (one, other) in enumerate(pairs):
        if one is None or other is None or _done(one.decision) != _done(other.decision):
            return number
    return None


def _done(decision: Decision) -> JsonObject:
    return decision.model_dump(mode="json", exclude=UNDECIDED)


def _is_parting(difference: Difference, turn: int | None) -> bool:
    """Whether it is the decision itself, or that one of them had ended."""
    return turn is not None and difference.turn == turn and difference.what in ("decision", "end")


def _side(trace: Trace, result: EpisodeResult, turn: int | None) -> ApartSide:
    evidence = trace.evidence
    turns = evidence.turns
    record = turns[turn] if turn is not None and turn < len(turns) else None
    return ApartSide(
        episode_id=result.episode_id,
        policy=result.policy,
        seed=result.seed,
        turns=len(turns),
        end=result.end,
        validity=result.validity,
        reason=result.reason,
        score=result.score,
        contracts=result.contracts,
        turn=told_turn(record, CallFacts.of(evidence), evidence.spec.kept_turns) if record is not None else None,
    )
