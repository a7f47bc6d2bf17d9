"""The story of an episode, told from its trace: the facts that are kept, joined as a person asks for them."""

from collections.abc import Iterator, Sequence

from schemas.episode import EpisodeResult, EpisodeSpec
from schemas.exam import Exams
from schemas.journal import TurnRecord
from schemas.story import PhaseStory, Story, TurnInFull
from schemas.task import Task
from tiltyard.episode.grading import NO_EXAMS
from tiltyard.episode.phases import PHASES
from tiltyard.errors import BadInput
from tiltyard.graders.trial import Place, agents_place
from tiltyard.reopen.ledger_places import rows_placed
from tiltyard.reopen.points import points_of
from tiltyard.reopen.told_turns import CallFacts, told_turn
from tiltyard.trace import Trace

NOTES = {
    "settle": "nothing was waited for",
    "recycle": "beside grade; the outcome is recorded before it ends",
}
"""What is said of a phase without a time."""


def tell(trace: Trace, result: EpisodeResult, exams: Exams = NO_EXAMS) -> Story:
    """The story of an episode that has ended. A function of its trace, its outcome and its examinations."""
    evidence = trace.evidence
    told = CallFacts.of(evidence)
    return Story(
        episode_id=result.episode_id,
        instruction=trace.task.instruction,
        turns=tuple(told_turn(turn, told, evidence.spec.kept_turns) for turn in evidence.turns),
        later=told.later,
        jobs=evidence.facts.jobs,
        late=evidence.facts.late,
        sandbox=evidence.sandbox,
        points=points_of(trace, result, exams),
        phases=tuple(phases_of(evidence.spec, result)),
    )


def so_far(spec: EpisodeSpec, task: Task, generation: int, turns: Sequence[TurnRecord]) -> Story:
    """The story of an episode that runs, as far as its journal tells it."""
    told = CallFacts(ids=(spec.episode_id, generation))
    return Story(
        episode_id=spec.episode_id,
        instruction=task.instruction,
        turns=tuple(told_turn(turn, told, spec.kept_turns) for turn in turns),
    )


def phases_of(spec: EpisodeSpec, result: EpisodeResult) -> Iterator[PhaseStory]:
    """The phases as they were gone through, with the times that the outcome holds."""
    gone = [name for name in PHASES if name != "provision" or spec.sandbox is not None]
    for name in gone:
        after = tuple(one for one in PHASES[name] if one in gone)
        if name == "provision" and spec.kept_turns:
            after = ("lease",)  # a fork's files are found by its journal
        seconds = result.timings.get(name)
        yield PhaseStory(
            name=name, after=after, seconds=seconds, note=NOTES.get(name, "") if seconds is None else ""
        )


def turn_in_full(trace: Trace, number: int) -> TurnInFull:
    """One turn with everything that is kept of it. Raises ``BadInput`` for a turn that there is not."""
    evidence = trace.evidence
    record = _turn(evidence.turns, number)
    told = CallFacts.of(evidence)
    facts, boxes = evidence.facts, evidence.sandbox
    said = () if boxes is None else (*boxes.earlier, boxes.facts)
    deliveries = tuple(one for one in facts.deliveries if _is_of(one.delivery_id, number))
    return TurnInFull(
        turn=told_turn(record, told, evidence.spec.kept_turns),
        record=record,
        deliveries=deliveries,
        ledger=tuple(row for place, row in rows_placed(facts.ledger, facts.deliveries) if _is_in(place, number)),
        receipts=tuple(one for one in facts.receipts if _is_of(one.delivery_id, number)),
        commands=tuple(one for told in said for one in told.commands if _is_of(one.op_id, number)),
        processes=tuple(one for told in said for one in told.processes if _is_of(one.op_id, number)),
        marked_reads=tuple(one for told in said for one in told.marked_reads if _is_of(one.op_id, number)),
        connections=tuple(one for told in said for one in told.connections if _is_of(one.op_id, number)),
    )


def turn_so_far(spec: EpisodeSpec, generation: int, turns: Sequence[TurnRecord], number: int) -> TurnInFull:
    """One turn of an episode that runs, as far as its journal tells it. Raises ``BadInput`` as above."""
    record, told = _turn(turns, number), CallFacts(ids=(spec.episode_id, generation))
    return TurnInFull(turn=told_turn(record, told, spec.kept_turns), record=record)


def _turn(turns: Sequence[TurnRecord], number: int) -> TurnRecord:
    for record in turns:
        if record.turn == number:
            return record
    raise no_such_turn(turns, number)


def no_such_turn(turns: Sequence[TurnRecord], number: int) -> BadInput:
    """What whoever names a turn is told that an episode has not."""
    fix = f"choose one from 0 to {turns[-1].turn}" if turns else "it had no turn"
    return BadInput(f"there is no turn {number}", field="--turn", fix=fix)


def _is_of(sent: str, turn: int) -> bool:
    return _is_in(agents_place(sent), turn)


def _is_in(place: Place | None, turn: int) -> bool:
    return place is not None and place[0] == turn
