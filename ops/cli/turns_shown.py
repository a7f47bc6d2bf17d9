"""The turns of a story as a person reads them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ops.cli.counting import counted
from ops.cli.folded import Line
from ops.cli.values_shown import BRIEF, WHOLE, Cut, call_lines, cut, in_json, said_lines, value_lines
from schemas.evidence import Reading
from schemas.observation import Observation
from schemas.story import CallStory, FieldChange, TurnStory, WorldChange
from schemas.world import Job

ALL_UP_TO, FIRST, LAST, BETWEEN = 60, 10, 10, 30
"""Of more than so many turns are shown the first and the last ones, and between them some that changed something or
went wrong."""

FAULTS = {
    "commit_then_drop": "it took effect, and its reply was dropped",
    "drop_before_commit": "it was dropped on its way, and nothing happened",
    "delay": "it was late",
    "error_status": "it was refused, and nothing happened",
}
"""What a planned fault did."""

READINGS: dict[Reading, str] = {
    "committed": "in flight at the seal, and done",
    "absent": "in flight at the seal, and never done",
    "unknown": "in flight at the seal; whether it was done is unknown",
}

DAY_S = 86_400

MARKS = {"created": "+", "updated": "~", "deleted": "-"}
"""Before a changed row."""


@dataclass(frozen=True)
class Gap:
    """Turns that are not shown, and how many of them changed something or went wrong."""

    turns: tuple[TurnStory, ...]

    @property
    def notable(self) -> int:
        return sum(map(is_notable, self.turns))


def chosen(turns: Sequence[TurnStory]) -> Iterator[TurnStory | Gap]:
    """The turns that are shown, and what lies between them."""
    picked = set(range(len(turns)))
    if len(turns) > ALL_UP_TO:
        between = [at for at in range(FIRST, len(turns) - LAST) if is_notable(turns[at])]
        picked = {*range(FIRST), *range(len(turns) - LAST, len(turns)), *between[:BETWEEN]}
    for shown, group in groupby(range(len(turns)), key=picked.__contains__):
        if shown:
            yield from (turns[at] for at in group)
        else:
            yield Gap(tuple(turns[at] for at in group))


def is_notable(turn: TurnStory) -> bool:
    """Whether something was changed or went wrong, or somebody else than the environment was spoken to."""
    calls = [one for call in turn.calls for one in (call, *call.inside)]
    return bool(turn.faults) or not turn.calls or any(map(_is_notable, calls))


def _is_notable(call: CallStory) -> bool:
    return call.effect or bool(call.changes or call.jobs or call.reading) or not _went_well(call.shown)


def _went_well(shown: Observation | None) -> bool:
    if shown is None or shown.status != "ok":
        return False
    return not isinstance(shown.content, dict) or shown.content.get("exit_code", 0) == 0


def turns_lines(turns: Sequence[TurnStory]) -> Iterator[Line]:
    """The turns in order; of very many those that tell the most."""
    for one in chosen(turns):
        yield from turn_lines(one) if isinstance(one, TurnStory) else _gap_lines(one)


def _gap_lines(gap: Gap) -> Iterator[Line]:
    first, last = gap.turns[0].turn, gap.turns[-1].turn
    notable = f", {gap.notable} of which changed something or went wrong" if gap.notable else ""
    yield Line(f"… turns {first} to {last}: {counted(len(gap.turns), 'turn')} more{notable}; `--turn N` shows one")


def turn_lines(turn: TurnStory, *, whole: bool = False) -> Iterator[Line]:
    """One turn; ``whole`` cuts nothing."""
    to = WHOLE if whole else BRIEF
    yield Line(", ".join(_head(turn)))
    yield from _said("thinks: ", turn.thought, to)
    for call in turn.calls:
        yield from call_told(call, 2, to)
    yield from _faults_elsewhere(turn)
    yield from _said("asks: ", turn.ask, to)
    if turn.ask is not None:
        yield from _shown_lines(turn.answer, 4, to, none="nobody has answered yet")
    if turn.submit is not None:
        yield from value_lines("submits ", turn.submit, 2, to)
    yield from _said("gives up: ", turn.give_up, to)


def _said(how: str, text: str | None, to: Cut) -> Iterator[Line]:
    """What the policy said in plain words."""
    if text:
        yield from said_lines(how, text, 2, to)


def _head(turn: TurnStory) -> Iterator[str]:
    clock = f" (world's clock: {moment(turn.now_s)})" if turn.now_s is not None and turn.calls else ""
    yield f"turn {turn.turn}{clock}"
    if turn.tokens:
        yield counted(turn.tokens, "token")
    if turn.kept:
        yield "of its parent"


def _faults_elsewhere(turn: TurnStory) -> Iterator[Line]:
    """Faults of which it is not known yet which call they hit."""
    if not any(call.fault for call in turn.calls):
        yield from (Line(_fault(fault), 4) for fault in turn.faults)


def _fault(kind: str) -> str:
    return f"planned fault {kind}: {FAULTS.get(kind, 'as the task plans')}"


def call_told(call: CallStory, indent: int, to: Cut) -> Iterator[Line]:
    """A call, what it was shown, and what it did, programs of it included."""
    request = f"request {call.request}: " if call.request else ""
    sent = f"  [{call.delivery_id}]" if call.delivery_id else ""
    yield from call_lines(request + call.tool, call.arguments, sent, indent, to)
    within = indent + 2
    if call.reading is None or call.shown is not None:
        yield from _shown_lines(call.shown, within, to, none="no answer yet")
    if call.reading is not None:
        yield Line(READINGS[call.reading], within)
    if call.fault:
        yield Line(_fault(call.fault), within)
    if call.receipt is not None:
        yield Line(f"receipt {in_json(call.receipt.operation_id)} at {moment(call.receipt.at_s)}", within)
    for change in call.changes:
        yield from change_lines(change, within, to)
    yield from (Line(job_told(job), within) for job in call.jobs)
    for inside in call.inside:
        yield from call_told(inside, within, to)


def _shown_lines(shown: Observation | None, indent: int, to: Cut, none: str) -> Iterator[Line]:
    if shown is None:
        yield Line(none, indent, mark="→ ")
        return
    if shown.status == "ok":
        yield from value_lines("→ ", shown.content, indent, to)
    else:
        code, why = f" {shown.code}" if shown.code else "", f": {cut(shown.message, to)}" if shown.message else ""
        yield Line(f"{shown.status.upper()}{code}{why}", indent, mark="→ ")
        if shown.content is not None:
            yield from value_lines("  ", shown.content, indent, to)
    if shown.truncated_bytes:
        yield Line(f"({shown.truncated_bytes} bytes more were cut before the agent saw it)", indent + 2)


def change_lines(change: WorldChange, indent: int, to: Cut) -> Iterator[Line]:
    """A changed row: the fields that differ, before and after."""
    mark, row = f"{MARKS[change.change]} ", f"{change.collection}/{change.key}"
    by = f" by {change.tool} ({change.job}) at {moment(change.at_s)}" if change.job else ""
    if change.change != "updated":
        yield from value_lines(mark, change.body, indent, to, f"{row} {change.change}{by}: ")
        return
    fields = "; ".join(_field(field, to) for field in change.fields) or "nothing differs"
    yield Line(f"{row}{by}: {fields}", indent, mark=mark)


def _field(field: FieldChange, to: Cut) -> str:
    before, after = cut(in_json(field.before), to), cut(in_json(field.after), to)
    values = {"created": f"(none) → {after}", "deleted": f"{before} → (none)", "updated": f"{before} → {after}"}
    return f"{field.path or 'all'} {values[field.change]}"


def job_told(job: Job) -> str:
    """A deferred job, and what became of it."""
    why = f" ({job.error})" if job.error else ""
    return f"job {job.job_id}: {job.kind}, due at {moment(job.due_s)}: {job.state}{why}"


def moment(seconds: int) -> str:
    """A moment of the world's clock; after the first day in days too, to the tenth."""
    return f"{seconds} s" + (f", {seconds / DAY_S:.1f} days" if seconds >= DAY_S else "")
