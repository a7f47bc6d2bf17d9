"""The comparison of two episodes: whatever moves the digest is found, where it is, and nothing else is."""

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.decision import Call, Decision
from schemas.episode import End
from schemas.evidence import Evidence
from schemas.journal import TurnRecord
from schemas.observation import Observation
from schemas.task import Task
from schemas.view import View
from schemas.world import Facts
from tiltyard.graders.trial import agents_place
from tiltyard.policies.catalogue import open_script
from tiltyard.policies.script import call, give_up
from tiltyard.ports import Policy
from tiltyard.reopen.compare import first_difference, not_compared
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace, trace_digest
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

Edit = Callable[[Trace], Trace]

LOST = "replacement/reply-lost/1"


class Repairs:
    """Writes a source file and runs a command."""

    async def act(self, view: View) -> Decision:
        moves = (
            call("write_file", path="catalogue/new.py", content="x = 1"),
            call("shell", command="echo done"),
            give_up("enough"),
        )
        return moves[view.turn]


@cache
def repaired() -> Trace:
    return acted(shipped().task("code-repair/repair/1"), Repairs())


@cache
def played(task_id: str, script: str) -> Trace:
    task = shipped().task(task_id)
    return acted(task, open_script(script, task))


def acted(task: Task, policy: Policy) -> Trace:
    engine = Engine(worlds(), MemoryWorlds())
    return Trace(task, engine.describe(task.world), asyncio.run(rehearse(task, policy, engine)))


def digest(trace: Trace) -> str:
    evidence = trace.evidence
    return trace_digest(trace.task, evidence.facts, evidence.turns, evidence.ending.end, evidence.sandbox)


def with_evidence(trace: Trace, **update: Any) -> Trace:
    return Trace(trace.task, trace.tools, trace.evidence.model_copy(update=update))


def facts(change: Callable[[dict[str, Any]], object]) -> Edit:
    """An edit of the facts as plain data."""

    def edit(trace: Trace) -> Trace:
        dumped = trace.evidence.facts.model_dump(mode="json")
        change(dumped)
        return with_evidence(trace, facts=Facts.model_validate(dumped))

    return edit


def turn(number: int, **update: Any) -> Edit:
    def edit(trace: Trace) -> Trace:
        turns = list(trace.evidence.turns)
        turns[number] = turns[number].model_copy(update=update)
        return with_evidence(trace, turns=tuple(turns))

    return edit


def shown(number: int, index: int, content: object) -> Edit:
    def edit(trace: Trace) -> Trace:
        observations = list(trace.evidence.turns[number].observations or ())
        observations[index] = observations[index].model_copy(update={"content": content})
        return turn(number, observations=tuple(observations))(trace)

    return edit


def entities(dumped: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [row for row in dumped["ledger"] if not row["collection"].startswith("~")]


@facts
def unfaulted(dumped: dict[str, Any]) -> None:
    for one in dumped["deliveries"]:
        one["reply"]["fault"] = ""


def file_changed(trace: Trace) -> Trace:
    sandbox = trace.evidence.sandbox
    assert sandbox is not None
    changes = tuple(one.model_copy(update={"after": "sha256:" + "0" * 64}) for one in sandbox.changes)
    return with_evidence(trace, sandbox=sandbox.model_copy(update={"changes": changes}))


def ended(end: End) -> Edit:
    return lambda trace: with_evidence(trace, ending=trace.evidence.ending.model_copy(update={"end": end}))


ORDERED = 4
"""The turn of ``late_callback`` in which its order is placed."""

EDITS: tuple[tuple[Edit, int | None, int | None, str], ...] = (
    (turn(2, decision=give_up("enough")), 2, None, "decision"),
    (shown(3, 0, "other"), 3, 0, "observation"),
    (turn(3, observations=()), 3, 0, "observation"),
    (lambda trace: unfaulted(turn(ORDERED, faults=())(trace)), ORDERED, 0, "fault"),
    (turn(2, now_s=999), 2, None, "clock"),
    (facts(lambda dumped: entities(dumped)[0].update(after={"x": 1})), ORDERED, 0, "change"),
    (facts(lambda dumped: dumped["ledger"].remove(entities(dumped)[0])), ORDERED, 0, "change"),
    (facts(lambda dumped: dumped["receipts"][0].update(at_s=1)), 6, 0, "receipts"),
    (facts(lambda dumped: dumped["receipts"].pop()), 7, 0, "receipts"),
    (facts(lambda dumped: dumped["jobs"][0].update(state="failed")), None, None, "jobs"),
    (facts(lambda dumped: dumped["jobs"].pop()), None, None, "jobs"),
    (ended(End.CANCELLED), None, None, "end"),
    (lambda trace: with_evidence(trace, turns=trace.evidence.turns[:-1]), 8, None, "end"),
)


def test_the_script_is_what_the_edits_take_it_for() -> None:
    trace = played(LOST, "late_callback")
    assert trace.evidence.turns[ORDERED].faults == ("commit_then_drop",)
    assert len(trace.evidence.turns) == 9
    assert [one.operation_id.split("-")[0] for one in trace.evidence.facts.receipts] == [
        "close_ticket",
        "order",
        "schedule_callback",
    ]


@pytest.mark.parametrize(("edit", "where", "index", "what"), EDITS)
def test_what_differs_is_found_where_it_is(edit: Edit, where: int | None, index: int | None, what: str) -> None:
    left = played(LOST, "late_callback")
    for one, other in ((left, edit(left)), (edit(left), left)):
        found = first_difference(one, other)
        assert found is not None
        assert (found.turn, found.call, found.what) == (where, index, what)
        assert found.left != found.right
    assert digest(edit(left)) != digest(left)


def test_a_graded_file_that_differs_is_found() -> None:
    left = repaired()
    found = first_difference(left, file_changed(left))
    assert found is not None
    assert (found.turn, found.what) == (None, "files")


def test_the_first_difference_is_the_one_that_is_told() -> None:
    left = played(LOST, "late_callback")
    right = turn(2, now_s=999)(shown(3, 0, "other")(ended(End.CANCELLED)(left)))
    found = first_difference(left, right)
    assert found is not None
    assert (found.turn, found.what) == (2, "clock")


@settings(max_examples=60, deadline=None)
@given(st.sets(st.sampled_from(range(len(EDITS)))))
def test_there_is_a_difference_exactly_where_digests_differ(chosen: set[int]) -> None:
    """So a comparison that leaves out any part of what the digest covers fails here."""
    left = right = played(LOST, "late_callback")
    for number in sorted(chosen):
        right = EDITS[number][0](right)
    assert (first_difference(left, right) is None) is (digest(left) == digest(right)) is (not chosen)


def test_what_the_digest_covers_of_a_turn_is_what_is_compared() -> None:
    """A field more would be in the digest and in no comparison."""
    compared = {"decision", "observations", "faults", "now_s"}
    assert set(TurnRecord.model_fields) == compared | {"turn", "checkpoint"}


def test_what_belongs_to_one_run_is_no_difference() -> None:
    left = played(LOST, "late_callback")

    def renamed(dumped: dict[str, Any]) -> None:
        for row in dumped["ledger"]:
            row["position"] += 100
            row["cause"] = row["cause"].replace("rehearsed/", "two/9")
        for one in (*dumped["deliveries"], *dumped["receipts"]):
            one["delivery_id"] = one["delivery_id"].replace("rehearsed/", "two/9")
        for one in dumped["deliveries"]:
            one["reply"].update(first=one["reply"]["first"] + 100, last=one["reply"]["last"] + 100)

    assert first_difference(left, facts(renamed)(left)) is None


def test_what_commands_print_is_compared_after_the_task_s_normalisers() -> None:
    left = repaired()
    ran = left.evidence.turns[1]
    (observed,) = ran.observations or ()
    assert isinstance(observed.content, dict)
    timed = [{**observed.content, "stdout": f"passed in {seconds} s"} for seconds in ("0.12", "0.98")]
    one, other = (shown(ran.turn, 0, content)(left) for content in timed)
    assert first_difference(one, other) is None
    assert first_difference(one, shown(ran.turn, 0, {**observed.content, "stdout": "failed"})(left)) is not None


def test_a_change_of_a_deferred_job_belongs_to_the_call_that_let_its_time_come() -> None:
    task = shipped().task("replacement/receipt-delayed/1")

    class Orders:
        """Plays the reference, then waits."""

        async def act(self, view: View) -> Decision:
            decision = await open_script("late_callback", task).act(view)
            return call("wait", seconds=60 * 86_400) if decision.submit is not None else decision

    left = acted(task, Orders())
    jobs = [row for row in left.evidence.facts.ledger if row.cause_kind == "job" and not row.system]
    assert jobs, "some job has changed the world"
    found = first_difference(left, facts(lambda dumped: _job_row(dumped).update(after={"x": 1}))(left))
    assert found is not None
    waited = next(one.turn for one in left.evidence.turns if one.now_s >= jobs[0].at_s)
    assert (found.turn, found.call, found.what) == (waited, 0, "change")


def _job_row(dumped: Mapping[str, Any]) -> dict[str, Any]:
    return next(row for row in entities(dumped) if row["cause_kind"] == "job")


def test_of_jobs_that_are_alike_those_are_told_that_only_one_has() -> None:
    left = facts(lambda dumped: dumped["jobs"].extend(_a_job() for _ in range(2)))(played(LOST, "late_callback"))
    right = facts(lambda dumped: dumped["jobs"].extend(_a_job() | {"job_id": str(n)} for n in range(3)))(left)
    found = first_difference(left, right)
    assert found is not None
    assert (found.what, found.left) == ("jobs", [])
    assert isinstance(found.right, list)
    assert [job["kind"] for job in found.right if isinstance(job, dict)] == ["callback"] * 3
    other = first_difference(right, left)
    assert other is not None
    assert (other.left, other.right) == (found.right, [])


def opened(trace: Trace, reading: str, number: int = ORDERED) -> Trace:
    """The episode as it would be, had it been stopped in this turn, which had its effects or had not."""
    turns = trace.evidence.turns[: number + 1]
    last = turns[-1].model_copy(update={"observations": None, "faults": (), "now_s": 0})
    ending = trace.evidence.ending.model_copy(update={"end": End.CANCELLED})
    kept = with_evidence(trace, turns=(*turns[:-1], last), ending=ending, in_flight={"rehearsed/1/4/0": reading})
    return facts(lambda dumped: _until(dumped, number, whole=reading != "absent"))(kept)


def _until(dumped: dict[str, Any], number: int, *, whole: bool) -> None:
    """The facts without what turns after it had done, and without its own where it is not ``whole``."""
    for part, key in (("ledger", "cause"), ("receipts", "delivery_id"), ("deliveries", "delivery_id")):
        dumped[part] = [
            row
            for row in dumped[part]
            if (place := agents_place(row[key])) is not None and place[0] < number + whole
        ]
    dumped["jobs"] = dumped["jobs"][:1] if whole else []


def replayed(trace: Trace) -> Trace:
    """What a replay of it leaves: its finished turns, and what those had brought about."""
    done = tuple(one for one in trace.evidence.turns if one.observations is not None)
    again = with_evidence(trace, turns=done, in_flight={})
    return facts(lambda dumped: _until(dumped, len(done), whole=False))(again)


@pytest.mark.parametrize("reading", ["committed", "unknown", "absent"])
def test_an_open_turn_is_not_compared_and_that_is_said(reading: str) -> None:
    left = opened(played(LOST, "late_callback"), reading)
    right = replayed(left)
    assert first_difference(left, right) is None
    told = not_compared(left, right)
    assert told[0] == "turn 4, which was open when the original ended (cancelled)"
    assert (len(told) == 2) is (reading != "absent"), "what had no effect hides nothing"
    found = first_difference(left, shown(3, 0, "other")(right))
    assert found is not None
    assert found.turn == 3


def test_what_had_no_effect_hides_nothing() -> None:
    left = opened(played(LOST, "late_callback"), "absent")
    assert first_difference(left, facts(lambda dumped: dumped["jobs"].append(_a_job()))(replayed(left))) is not None


def _a_job() -> dict[str, Any]:
    return {"job_id": "j", "kind": "callback", "arguments": {}, "due_s": 5}


def test_without_an_open_turn_everything_is_compared() -> None:
    left = repaired()
    assert not_compared(left, left) == ()


def test_files_that_were_lost_are_said() -> None:
    left = with_evidence(repaired(), sandbox=None)
    right = repaired()
    assert first_difference(left, right) is None
    assert not_compared(left, right) == ("the files: the original's sandbox was lost with them",)


def test_evidence_of_any_kind_is_compared() -> None:
    """Without a single turn, and with a question alone."""
    task = shipped().task(LOST)
    nothing = acted(task, open_script("do_nothing", task))
    assert first_difference(nothing, with_evidence(nothing, turns=())) is not None
    assert first_difference(nothing, nothing) is None
    asked = Observation(tool="ask", status="ok", content="yes")
    turns = tuple(
        TurnRecord(
            turn=0, decision=Decision(ask="May I?"), observations=(asked.model_copy(update={"content": text}),)
        )
        for text in ("yes", "no")
    )
    one, other = (with_evidence(nothing, turns=(each,)) for each in turns)
    found = first_difference(one, other)
    assert found is not None
    assert (found.turn, found.call, found.what) == (0, 0, "observation")
    assert isinstance(nothing.evidence, Evidence)
    assert Call(tool="x").arguments == {}
