"""Replays: equal conditions give no divergence; one changed condition is found at its turn, with its cause."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from schemas.decision import Decision
from schemas.episode import End
from schemas.fault import Fault
from schemas.replay import Cause, Verdict
from schemas.task import Task, Weights
from schemas.view import View
from tests.unit.reopen.replays import Worlds, again, play, renamed, replayed, with_rows, with_tool, with_world
from tiltyard.errors import EnvironmentFailed
from tiltyard.graders.trial import agents_place
from tiltyard.policies.catalogue import SCRIPTS, open_script
from tiltyard.policies.script import call, give_up
from tiltyard.reopen.recording import recording_of
from tiltyard.reopen.verdicts import Played, verdict_of
from tiltyard.suite import shipped
from tiltyard.worlds.kit import State
from tiltyard.worlds.registry import worlds

FAMILIES = {task.family: task for task in reversed(shipped().match(["*"]))}
"""The first task of each family."""

PLAYED_HERE = [task for task in FAMILIES.values() if not task.needs_sandbox]
SCRIPTS_HERE = [name for name, script in SCRIPTS.items() if not script.needs_sandbox]

LOST = "replacement/reply-lost/1"
ORDERED = 4
"""The turn in which ``reconcile`` orders there, and its reply is lost."""


def test_families_without_a_sandbox_are_played_here() -> None:
    assert len(PLAYED_HERE) >= 15


@pytest.mark.parametrize("task", PLAYED_HERE, ids=lambda task: task.family)
def test_every_scripted_episode_replays_without_divergence(task: Task) -> None:
    for script in SCRIPTS_HERE:
        verdict = replayed(task, open_script(script, task), seed=3, strict=True)
        assert not verdict.diverged, f"{script}: {verdict}"
        assert (verdict.differs, verdict.not_compared) == ((), ())
        assert verdict.digests["episode"].trace == verdict.digests["replay"].trace


def lost_reply(**options: Any) -> Verdict:
    task = shipped().task(LOST)
    return replayed(task, open_script("reconcile", task), **options)


def field_renamed() -> Worlds:
    """``create_replacement`` with ``serial_number`` in the place of ``serial``."""
    original = worlds()["replacement"].tools["create_replacement"]

    def changed(state: State, ticket_id: str, serial_number: str, model: str, approval_id: str) -> Any:
        """Order a replacement."""
        return original.run(state, ticket_id, serial_number, model, approval_id)

    return with_tool("replacement", renamed(original, changed))


def price(rows: dict[str, dict[str, Any]]) -> None:
    rows["orders"]["#W9637217"]["status"] = "delivered"


def policy_text(rows: dict[str, dict[str, Any]]) -> None:
    rows["policies"]["POL-1"]["title"] = "Something else"


def with_faults(task_id: str, *faults: Fault) -> Task:
    return shipped().task(task_id).model_copy(update={"faults": faults})


def moved(task_id: str, tool: str) -> Task:
    """The lost reply is that of the second call."""
    return with_faults(task_id, Fault(tool=tool, kind="commit_then_drop", nth=2))


def field_of_retail() -> Worlds:
    original = worlds()["retail"].tools["cancel_pending_order"]

    def changed(state: State, order: str, reason: str) -> Any:
        """Cancel an order."""
        return original.run(state, order, reason)

    return with_tool("retail", renamed(original, changed))


RETAIL_LOST = "retail/reply-lost/1"


class Injected(NamedTuple):
    """A change between an episode and its replay, the turn in which it shows, and what is to be said of it.

    Of a call whose reply is lost either way, an observation shows nothing: the world does.
    """

    name: str
    task: str
    script: str
    change: dict[str, Any]
    turn: int
    cause: Cause
    named: str
    what: str = "observation"


INTERFACE: Cause = "tool_interface_changed"
ENVIRONMENT: Cause = "environment_changed"
TEMPLATE, FAULT = "template.content", "faults.0"

INJECTED = (
    Injected("field", LOST, "reconcile", {"kinds": field_renamed()}, ORDERED, INTERFACE, "serial", "change"),
    Injected("row", LOST, "reconcile", {"kinds": with_rows("replacement", policy_text)}, 1, ENVIRONMENT, TEMPLATE),
    Injected("fault", LOST, "reconcile", {"task": moved(LOST, "create_replacement")}, ORDERED, ENVIRONMENT, FAULT),
    Injected("no fault", LOST, "reconcile", {"task": with_faults(LOST)}, ORDERED, ENVIRONMENT, FAULT),
    Injected("field", "retail/cancel/1", "reference", {"kinds": field_of_retail()}, 3, INTERFACE, "order_id"),
    Injected(
        "row", "retail/cancel/1", "reference", {"kinds": with_rows("retail", price)}, 2, ENVIRONMENT, TEMPLATE
    ),
    Injected(
        *("fault", RETAIL_LOST, "reference", {"task": moved(RETAIL_LOST, "cancel_pending_order")}, 3),
        *(ENVIRONMENT, FAULT),
    ),
)


@pytest.mark.parametrize("injected", INJECTED, ids=lambda one: f"{one.name} of {one.task}")
def test_one_injected_change_is_found_at_its_turn_with_its_cause(injected: Injected) -> None:
    task = shipped().task(injected.task)
    verdict = replayed(task, open_script(injected.script, task), **injected.change)
    assert verdict.diverged
    found = verdict.turn, verdict.call, verdict.what, verdict.cause
    assert found == (injected.turn, 0, injected.what, injected.cause)
    assert verdict.left != verdict.right
    assert any(injected.named in one.what for one in verdict.differs), verdict.differs


def roomier() -> Task:
    """Another limit, which ends nothing sooner."""
    task = shipped().task(LOST)
    return task.model_copy(update={"limits": task.limits.model_copy(update={"turns": 50})})


def test_of_two_changes_the_tool_of_the_call_comes_first_and_a_tool_of_later_calls_does_not() -> None:
    verdict = lost_reply(kinds=field_renamed(), task=roomier())
    assert (verdict.turn, verdict.cause) == (ORDERED, INTERFACE)
    both = {**field_renamed(), **with_rows("replacement", policy_text)}
    tools = field_renamed()["replacement"].tools
    both["replacement"] = dataclasses.replace(both["replacement"], tools=tools)
    verdict = lost_reply(kinds=both)
    assert (verdict.turn, verdict.cause) == (1, ENVIRONMENT)


def test_a_renamed_field_is_named_on_both_sides() -> None:
    told = {one.what: (one.left, one.right) for one in lost_reply(kinds=field_renamed()).differs}
    was, now = told["tool create_replacement: parameters.properties.serial"]
    assert "Serial" in was
    assert now == "none"
    assert told["tool create_replacement: parameters.properties.serial_number"][0] == "none"


def test_a_fault_that_moved_reads_as_one() -> None:
    verdict = lost_reply(task=moved(LOST, "create_replacement"))
    (told,) = [one for one in verdict.differs if one.what == "faults.0"]
    assert told.left == "commit_then_drop of create_replacement at call 1"
    assert told.right == "commit_then_drop of create_replacement at call 2"


def test_a_tool_that_is_gone_is_a_changed_interface() -> None:
    tools = {name: tool for name, tool in worlds()["replacement"].tools.items() if name != "get_approval"}
    verdict = lost_reply(kinds=with_world("replacement", tools=tools))
    assert (verdict.turn, verdict.cause) == (3, "tool_interface_changed")
    assert ("tool get_approval", "there", "not there") in [(o.what, o.left, o.right) for o in verdict.differs]


def wavering() -> Worlds:
    """``get_approval`` answers differently whenever it is asked, with the interface that it has."""
    original = worlds()["replacement"].tools["get_approval"]
    asked: list[str] = []

    def run(state: State, approval_id: str) -> Any:
        asked.append(approval_id)
        return {"approval_id": approval_id, "times": len(asked)}

    return with_tool("replacement", type(original)(original.spec, original.arguments, run))


def test_where_nothing_known_differs_it_is_nondeterminism() -> None:
    task, kinds = shipped().task(LOST), wavering()
    original = asyncio.run(play(task, open_script("do_nothing", task), kinds))
    policy = Plays(call("get_approval", approval_id="A-503"))
    original = asyncio.run(play(task, policy, kinds))
    verdict = asyncio.run(again(original, kinds))
    assert (verdict.turn, verdict.cause, verdict.differs) == (0, "nondeterminism", ())


class Plays:
    """Decides as listed, and then gives up."""

    def __init__(self, *decisions: Decision) -> None:
        self._decisions = decisions

    async def act(self, view: View) -> Decision:
        return self._decisions[view.turn] if view.turn < len(self._decisions) else give_up("enough")


def silent(kind: str) -> Worlds:
    """Orders that say the same and do something else, or cost more."""
    original = worlds()["replacement"].tools["schedule_callback"]

    def run(state: State, **arguments: Any) -> Any:
        answer = original.run(state, **arguments)
        if kind == "change":
            state.save("tickets", "T-9", {"made": "up"})
        else:
            state.schedule("take_up_again", {"callback_id": "C-1001"}, 5)
        return answer

    return with_tool("replacement", type(original)(original.spec, original.arguments, run))


@pytest.mark.parametrize(("kind", "what", "turn"), [("change", "change", 7), ("job", "jobs", None)])
def test_what_no_observation_shows_is_found(kind: str, what: str, turn: int | None) -> None:
    """A comparison of observations alone would miss it."""
    task = Task.model_validate(shipped().task(LOST).model_dump() | {"settle": {"limit_s": 0}})
    verdict = replayed(task, open_script("late_callback", task), silent(kind))
    assert (verdict.what, verdict.turn, verdict.cause) == (what, turn, "nondeterminism")


def test_a_fault_that_shows_nothing_is_found_by_its_clock_and_its_name() -> None:
    """A delay of a call changes no answer; without faults and clocks it would pass."""
    delay = Fault(tool="get_ticket", kind="delay", nth=1, delay_s=7)
    task = shipped().task("replacement/approved/1")
    verdict = replayed(task, open_script("reconcile", task), task=task.model_copy(update={"faults": (delay,)}))
    assert (verdict.turn, verdict.call, verdict.what) == (0, 0, "fault")
    assert (verdict.left, verdict.right, verdict.cause) == ([], ["delay"], "environment_changed")


def test_a_tool_that_costs_more_is_found_by_the_clock() -> None:
    original = worlds()["replacement"].tools["get_ticket"]
    dearer = type(original)(original.spec.model_copy(update={"cost_s": 6}), original.arguments, original.run)
    verdict = lost_reply(kinds=with_tool("replacement", dearer))
    assert (verdict.turn, verdict.what, verdict.left, verdict.right) == (0, "clock", 5, 6)
    assert verdict.cause == "tool_interface_changed"


def test_limits_that_end_the_replay_sooner_are_named() -> None:
    task = shipped().task(LOST)
    fewer = task.model_copy(update={"limits": task.limits.model_copy(update={"turns": 3})})
    verdict = lost_reply(task=fewer)
    assert (verdict.turn, verdict.what, verdict.cause) == (3, "end", "environment_changed")
    assert ("limits.turns", "40", "3") in [(one.what, one.left, one.right) for one in verdict.differs]
    assert verdict.right == {"end": "budget_exhausted", "reason": "turns"}


def edited(original: Played, change: Callable[[dict[str, Any]], None]) -> Played:
    """The same with something else in its evidence."""
    dumped = original.trace.evidence.model_dump(mode="json")
    change(dumped)
    evidence = type(original.trace.evidence).model_validate(dumped)
    trace = type(original.trace)(original.trace.task, original.trace.tools, evidence)
    return Played(original.result.model_copy(update={"end": evidence.ending.end}), trace)


def stopped_at(number: int, end: End) -> Callable[[dict[str, Any]], None]:
    """The evidence of an episode that was ended from outside between two turns, with what it had done by then."""

    def change(dumped: dict[str, Any]) -> None:
        dumped["turns"] = dumped["turns"][:number]
        dumped["ending"] = {"end": end, "reason": "because"}
        facts = dumped["facts"]
        for part, key in (("ledger", "cause"), ("receipts", "delivery_id"), ("deliveries", "delivery_id")):
            facts[part] = [row for row in facts[part] if (p := agents_place(row[key])) and p[0] < number]
        facts["jobs"] = []

    return change


@pytest.mark.parametrize(
    "end",
    [End.CANCELLED, End.TERMINATED, End.BUDGET_EXHAUSTED, End.POLICY_ERROR, End.ENVIRONMENT_ERROR, End.STALLED],
)
def test_episodes_of_every_end_are_replayed_up_to_it(end: End) -> None:
    task = shipped().task(LOST)
    whole = asyncio.run(play(task, open_script("reconcile", task)))
    original = edited(whole, stopped_at(3, end))
    verdict = asyncio.run(again(original))
    assert not verdict.diverged, verdict


def test_a_replay_that_was_ended_before_its_end_says_nothing() -> None:
    task = shipped().task(LOST)
    original = asyncio.run(play(task, open_script("reconcile", task)))
    for end in (End.CANCELLED, End.TERMINATED, End.ENVIRONMENT_ERROR):
        cut = edited(original, stopped_at(2, end))
        with pytest.raises(EnvironmentFailed, match="came to no end of its own"):
            verdict_of(original, cut, recording_of(original.trace))


def test_a_recorded_answer_that_is_missing_is_missing_input() -> None:
    task = Task.model_validate(shipped().task(LOST).model_dump() | {"answers": ["yes"]})
    original = asyncio.run(play(task, Plays(Decision(ask="May I?"))))
    short = recording_of(original.trace).model_copy(update={"answers": ()})
    other = asyncio.run(play(task, short, name="replay"))
    verdict = verdict_of(original, other, short)
    assert (verdict.turn, verdict.what, verdict.cause) == (0, "observation", "missing_input")


def repaired(**update: Any) -> Task:
    """A task whose first contract is of tests, and which has a sandbox with this in its plan."""
    task = shipped().task("code-repair/repair/1")
    assert task.sandbox is not None
    return task.model_copy(update={"sandbox": task.sandbox.model_copy(update=update)})


def of_other_sources() -> Task:
    task = repaired()
    (tests,) = [one for one in task.contracts if one.kind == "tests"]
    other = tests.model_copy(update={"sources": ("elsewhere/*.py",)})
    return task.model_copy(update={"contracts": tuple(other if one == tests else one for one in task.contracts)})


WORKS = (
    call("write_file", path="catalogue/new.py", content="x = 1"),
    call("shell", command="echo passed in 0.12 s"),
)


@pytest.mark.parametrize(
    ("task", "named"),
    [(repaired(normalise=()), "sandbox.normalise"), (of_other_sources(), "contracts.0.sources")],
    ids=["normalise", "sources"],
)
def test_what_is_left_out_of_a_comparison_is_what_the_original_s_task_says(task: Task, named: str) -> None:
    """Two equal runs do not differ because one is looked at by other rules; that they would be is told."""
    for was, now in ((repaired(), task), (task, repaired())):
        verdict = replayed(was, Plays(*WORKS), task=now)
        assert not verdict.diverged, verdict
        assert [one.what for one in verdict.differs] == [named, "task digest"]


def stricter() -> Task:
    """The same task, with a contract that only its graders read."""
    task = shipped().task(LOST)
    return task.model_copy(update={"metadata": {**task.metadata, "note": "changed"}})


def test_what_only_strictness_minds() -> None:
    assert not lost_reply(task=stricter()).diverged
    verdict = lost_reply(task=stricter(), strict=True)
    assert (verdict.diverged, verdict.what, verdict.turn) == (True, "digests", None)
    assert verdict.cause == "environment_changed"
    assert [one.what for one in verdict.differs] == ["task digest"]


def test_that_only_what_it_is_judged_by_has_changed_is_said() -> None:
    """And which field of it: nothing of the environment has."""
    task = shipped().task(LOST)
    weights = Weights(completion=0.5, process=0.3, efficiency=0.2)
    rule = task.process[0].model_copy(update={"weight": 9.0})
    changed = task.model_copy(update={"weights": weights, "process": (rule, *task.process[1:])})
    assert not lost_reply(task=changed).diverged
    verdict = lost_reply(task=changed, strict=True)
    assert (verdict.diverged, verdict.cause) == (True, "judging_changed")
    named = {one.what for one in verdict.differs}
    assert named == {"weights.completion", "weights.process", "process.0.weight", "task digest"}


@pytest.mark.parametrize(
    ("what", "update"),
    [
        ("grade", {"score": {"total": 0.5}}),
        ("grade", {"counts": {"late_writes": 2}}),
        ("drain", {"drain": {"processes_found": 1}}),
    ],
)
def test_grades_and_drain_reports_are_compared_strictly(what: str, update: dict[str, Any]) -> None:
    task = shipped().task(LOST)
    original = asyncio.run(play(task, open_script("reconcile", task)))
    dumped = original.result.model_dump(mode="json")
    for name, fields in update.items():
        dumped[name] = {**dumped[name], **fields}
    other = Played(type(original.result).model_validate(dumped), original.trace)
    recording = recording_of(original.trace)
    assert not verdict_of(original, other, recording).diverged
    verdict = verdict_of(original, other, recording, strict=True)
    assert (verdict.what, verdict.cause) == (what, "nondeterminism")
