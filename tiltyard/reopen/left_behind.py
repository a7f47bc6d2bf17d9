"""One side of a comparison: an episode's turns, changes and remains, each with its place, without what an open turn
may have brought about."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemas.base import JsonObject, JsonValue, canonical
from schemas.episode import End
from schemas.evidence import Evidence
from schemas.replay import Difference
from schemas.task import Task
from schemas.world import Facts
from tiltyard.graders.trial import Place, agents_place
from tiltyard.reopen.ledger_places import rows_placed
from tiltyard.trace import (
    Trace,
    changes_in_order,
    covered_change,
    covered_files,
    covered_job,
    covered_receipt,
    covered_turn,
)

MAX_JOBS = 5
"""Deferred jobs of one side that a difference names."""


@dataclass(frozen=True)
class Side:
    """What one episode is compared by. Jobs and files are ``None`` where they are not compared."""

    turns: Sequence[JsonObject]
    changes: Sequence[tuple[Place | None, JsonObject]]
    faults: Mapping[Place, str]
    receipts: Sequence[tuple[Place | None, JsonObject]]
    jobs: Sequence[JsonObject] | None
    files: Sequence[JsonObject] | None
    end: End
    told_end: JsonObject


def side_of(trace: Trace, other: Trace, task: Task) -> Side:
    """An episode as far as it can be compared with another one. ``task`` says for both what of their turns and
    files is compared: its normalisers, and the sources that it grades."""
    evidence, facts = trace.evidence, trace.evidence.facts
    before = _bound(trace, other)
    changes = rows_placed(changes_in_order(facts), facts.deliveries)
    receipts = [(agents_place(receipt.delivery_id), covered_receipt(receipt)) for receipt in facts.receipts]
    files = evidence.sandbox if _files_compared(trace, other) else None
    return Side(
        turns=[covered_turn(task, turn) for turn in evidence.turns if turn.observations is not None],
        changes=[(place, covered_change(row)) for place, row in changes if _counts(place, before)],
        faults=_faults(facts),
        receipts=[one for one in receipts if _counts(one[0], before)],
        jobs=[covered_job(job) for job in facts.jobs] if before is None else None,
        files=covered_files(task, files) if files is not None else None,
        end=evidence.ending.end,
        told_end=evidence.ending.model_dump(mode="json"),
    )


def _counts(place: Place | None, before: int | None) -> bool:
    """Whether it is compared; where there is a bound, only what belongs to a turn before it is."""
    return before is None or (place is not None and place[0] < before)


def _bound(left: Trace, right: Trace) -> int | None:
    """The first turn whose effects are not compared, ``None`` where all are. Of episodes of which one has settled
    and the other has not, those of the turns are."""
    opened = [turn for turn in map(_effective_open_turn, (left, right)) if turn is not None]
    if not opened and _has_settled(left) is not _has_settled(right):
        return max(len(left.evidence.turns), len(right.evidence.turns))
    return min(opened, default=None)


def _open_turn(evidence: Evidence) -> int | None:
    last = evidence.turns[-1] if evidence.turns else None
    return last.turn if last is not None and last.observations is None else None


def _effective_open_turn(trace: Trace) -> int | None:
    """The turn that was open at the end, where it may have had effects."""
    touched = any(reading != "absent" for reading in trace.evidence.in_flight.values())
    return _open_turn(trace.evidence) if touched else None


def _has_settled(trace: Trace) -> bool:
    return any(record.delivery_id.endswith("/settle/0") for record in trace.evidence.facts.deliveries)


def _files_compared(left: Trace, right: Trace) -> bool:
    there = all(trace.evidence.sandbox is not None for trace in (left, right))
    return there and all(_effective_open_turn(trace) is None for trace in (left, right))


def _faults(facts: Facts) -> dict[Place, str]:
    """The planned faults that fired, by the place of their call."""
    fired = ((agents_place(one.delivery_id), one.reply.fault) for one in facts.deliveries if one.reply is not None)
    return {place: fault for place, fault in fired if place is not None and fault}


def remains_differ(left: Side, right: Side) -> Iterator[Difference]:
    """Receipts, then deferred jobs, then files: those that only one of the two has."""
    receipts = _one_sided(left.receipts, right.receipts)
    if receipts is not None:
        yield receipts
    jobs = [_missing(*pair) for pair in ((left.jobs, right.jobs), (right.jobs, left.jobs))]
    if any(jobs):
        yield Difference(what="jobs", left=jobs[0][:MAX_JOBS], right=jobs[1][:MAX_JOBS])
    files = _by_path(left.files), _by_path(right.files)
    if left.files is not None and right.files is not None and files[0] != files[1]:
        path = min(path for path in {**files[0], **files[1]} if files[0].get(path) != files[1].get(path))
        yield Difference(what="files", left=files[0].get(path), right=files[1].get(path))


def _one_sided(
    left: Sequence[tuple[Place | None, JsonObject]], right: Sequence[tuple[Place | None, JsonObject]]
) -> Difference | None:
    """The first receipt that only one has, beside the other's of the same operation id."""
    by_text = [{canonical(receipt): (place, receipt) for place, receipt in side} for side in (left, right)]
    only = [[by_text[side][text] for text in by_text[side].keys() - by_text[1 - side].keys()] for side in (0, 1)]
    if not any(only):
        return None
    place, first = min((*only[0], *only[1]), key=lambda one: (one[0] is None, one[0] or (), canonical(one[1])))
    told = [_of_operation(side, first["operation_id"]) for side in only]
    turn, call = (None, None) if place is None else place[:2]
    return Difference(turn=turn, call=call, what="receipts", left=told[0], right=told[1])


def _of_operation(receipts: Sequence[tuple[Place | None, JsonObject]], operation_id: JsonValue) -> JsonValue:
    return next((one for _, one in receipts if one["operation_id"] == operation_id), None)


def _missing(one: Sequence[JsonObject] | None, other: Sequence[JsonObject] | None) -> list[JsonValue]:
    """What is in ``one`` and not in ``other``, as often as it is; nothing where they are not compared."""
    if one is None or other is None:
        return []
    by_text = {canonical(value): value for value in one}
    left_over = Counter(map(canonical, one)) - Counter(map(canonical, other))
    return [by_text[text] for text in sorted(left_over.elements())]


def _by_path(files: Sequence[JsonObject] | None) -> dict[str, JsonObject]:
    return {str(one["path"]): one for one in files or ()}


def not_compared(left: Trace, right: Trace) -> tuple[str, ...]:
    """What of the two could not be compared, each in a few words; ``left`` is the original."""
    told = []
    for whose, trace in (("the original", left), ("the other", right)):
        turn = _open_turn(trace.evidence)
        if turn is not None:
            end = trace.evidence.ending.end
            told.append(f"turn {turn}, which was open when {whose} ended ({end})")
        if _effective_open_turn(trace) is not None:
            told.append(f"what turn {turn} changed, the deferred jobs and the files after it")
    if _bound(left, right) is not None and not any(map(_effective_open_turn, (left, right))):
        told.append("what happened after the last turn: only one of the two was given time to settle")
    lost = [whose for whose, trace in (("the original", left), ("the other", right)) if _lost_files(trace)]
    return (*told, *(f"the files: {whose}'s sandbox was lost with them" for whose in lost))


def _lost_files(trace: Trace) -> bool:
    return trace.task.needs_sandbox and trace.evidence.sandbox is None
