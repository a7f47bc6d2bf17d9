"""Grading again: without a change nothing moves, and with one just the facts move that it is about."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from schemas.base import canonical
from schemas.contract import AuthorisationContract, ProcessRule
from schemas.episode import EpisodeResult, Validity
from schemas.exam import Exam, Exams, TestReport, TestRun
from schemas.grade import ContractResult, RuleResult
from schemas.regrade import Regrade
from schemas.task import Task, Weights
from tiltyard.episode.grading import NO_EXAMS, examine
from tiltyard.errors import BadInput, InputMissing, ObjectsUnreachable
from tiltyard.graders.graph import GRADERS, Findings
from tiltyard.graders.trial import Trial
from tiltyard.policies.catalogue import SCRIPTS, open_script
from tiltyard.reopen.regrading import regrade, stored_facts, with_task_of_now
from tiltyard.sandbox.tools import SANDBOX_TOOLS
from tiltyard.suite import shipped
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace, pack, unpack
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

ENGINE = Engine(worlds(), MemoryWorlds())
FIRST = {task.family: task for task in reversed(shipped().match(["*/*/*"]))}
PLAIN = [task for task in FIRST.values() if not task.needs_sandbox]
LOST = FIRST["replacement/reply-lost"]


def play(task: Task, script: str) -> Trace:
    evidence = asyncio.run(rehearse(task, open_script(script, task), ENGINE, name=script))
    tools = ENGINE.describe(task.world)
    return Trace(task, tools if task.sandbox is None else (*tools, *SANDBOX_TOOLS.values()), evidence)


async def recorded(trace: Trace, objects: MemoryObjects, exams: Exams = NO_EXAMS) -> EpisodeResult:
    """The outcome as it stands in the records, with its objects: judged from the archived trace."""
    trace = unpack(pack(trace))
    result = examine(trace.task, trace.evidence, trace.tools, exams)
    kept = await objects.put(canonical(exams)) if exams.exams else ""
    return result.model_copy(update={"trace": await objects.put(pack(trace)), "exams": kept})


def again(task: Task, script: str, change: Callable[[Trace], Trace] = lambda trace: trace) -> Regrade:
    """Played and recorded, and graded again from what is stored after a change of it."""
    objects, trace = MemoryObjects(), play(task, script)
    before = asyncio.run(recorded(trace, objects))
    stored, exams = asyncio.run(stored_facts(before, objects))
    assert stored == trace
    return regrade(before, change(stored), exams, then=stored.task)


def moved(found: Regrade) -> set[tuple[str, str]]:
    return {(fact.part, fact.name) for fact in found.moved}


@pytest.mark.parametrize("script", [name for name, one in SCRIPTS.items() if not one.needs_sandbox])
def test_nothing_moves_when_nothing_has_changed(script: str) -> None:
    """Those that need a sandbox are in the exam of the graders in real ones."""
    for task in PLAIN:
        found = again(task, script)
        assert (found.moved, found.untold, found.before) == ((), (), found.after), task.id


def weighed(trace: Trace) -> Trace:
    weights = Weights(completion=0.5, process=0.3, efficiency=0.2)
    return replace(trace, task=trace.task.model_copy(update={"weights": weights}))


def test_other_weights_are_told_and_move_the_total_alone() -> None:
    found = again(LOST, "new_id_retry", weighed)
    assert moved(found) == {("score", "total"), ("weights", "weights")}
    (weights,) = [fact for fact in found.moved if fact.part == "weights"]
    assert weights.before == ("C 0.55, P 0.25, E 0.2",)
    assert weights.after == ("C 0.5, P 0.3, E 0.2",)
    assert (found.before.weights, found.after.weights) == (
        LOST.weights,
        weighed(play(LOST, "reference")).task.weights,
    )
    assert found.after.score.total == pytest.approx(found.before.score.process * 0.3, abs=1e-5)
    assert found.after.score.total != found.before.score.total


def test_another_rule_moves_itself_and_the_process() -> None:
    def ruled(trace: Trace) -> Trace:
        rule = ProcessRule.model_validate({"rule": "forbid", "call": {"tool": "create_replacement"}, "weight": 9})
        task = trace.task.model_copy(update={"process": (*trace.task.process, rule)})
        return replace(trace, task=task)

    found = again(LOST, "reconcile", ruled)
    assert moved(found) == {("rule", "forbid create_replacement"), ("score", "process"), ("score", "total")}
    fact = next(fact for fact in found.moved if fact.part == "rule")
    assert (fact.before, fact.after[0]) == ((), "broken, weight 9")


def test_another_reference_moves_the_efficiency_by_its_terms() -> None:
    def cheaper(trace: Trace) -> Trace:
        reference = trace.task.references[0]
        shorter = reference.model_copy(update={"steps": reference.steps[-2:]})
        return replace(trace, task=trace.task.model_copy(update={"references": (shorter,)}))

    found = again(LOST, "reconcile", cheaper)
    assert ("efficiency", "tool_calls") in moved(found)
    assert moved(found) - {("efficiency", "virtual_s")} == {
        ("efficiency", "tool_calls"),
        ("score", "efficiency"),
        ("score", "total"),
    }


def strict(trial: Trial, _: Findings) -> Findings:
    failed = ContractResult(name="receipts", kind="receipts", passed=False, why=("not on our watch",))
    return Findings({1: failed})


def test_another_grader_moves_the_verdict_of_its_contract_with_its_reasons() -> None:
    trace = play(LOST, "reconcile")
    before = asyncio.run(recorded(trace, MemoryObjects()))
    graders = [replace(one, run=strict) if one.name == "contract:receipts" else one for one in GRADERS]
    found = regrade(before, trace, Exams(), graders)
    assert moved(found) == {
        ("contract", "receipts"),
        *(("score", name) for name in ("completion", "efficiency", "total")),
    }
    (fact,) = (fact for fact in found.moved if fact.part == "contract")
    assert (fact.before, fact.after) == (("passed",), ("failed", "not on our watch"))
    assert found.before == type(found.before).of(before, LOST.weights), "what is recorded stays as it is"


def test_another_reason_of_a_contract_that_fails_as_before_is_told() -> None:
    trace = play(LOST, "new_id_retry")
    before = asyncio.run(recorded(trace, MemoryObjects()))
    graders = [replace(one, run=strict) if one.name == "contract:receipts" else one for one in GRADERS]
    assert moved(regrade(before, trace, Exams(), graders)) == {("contract", "receipts")}


def test_a_grader_that_sees_no_safety_and_one_that_fails() -> None:
    trace = play(LOST, "new_id_retry")
    before = asyncio.run(recorded(trace, MemoryObjects()))
    blind = [replace(one, run=lambda *_: Findings()) if one.name == "safety" else one for one in GRADERS]
    assert moved(regrade(before, trace, Exams(), blind)) == {("safety", "duplicate_effect")}

    def broken(trial: Trial, _: Findings) -> Findings:
        raise ZeroDivisionError

    failing = [replace(one, run=broken) if one.name == "safety" else one for one in GRADERS]
    found = regrade(before, trace, Exams(), failing)
    assert found.after.validity is Validity.GRADER
    assert ("validity", "validity") in moved(found)


def test_what_was_not_recorded_then_is_said_and_not_taken_for_moved() -> None:
    trace = play(LOST, "new_id_retry")
    before = asyncio.run(recorded(trace, MemoryObjects())).model_copy(update={"rules": None, "measures": None})
    found = regrade(before, trace, Exams())
    assert (found.moved, found.untold) == ((), ("rule", "efficiency"))


def test_two_rules_of_one_name_are_told_apart() -> None:
    trace = play(LOST, "reconcile")
    twice = tuple(RuleResult(rule="forbid x", triggered=True, held=held) for held in (True, False))
    before = asyncio.run(recorded(trace, MemoryObjects())).model_copy(update={"rules": twice})
    told = {fact.name: fact.before for fact in regrade(before, trace, Exams()).facts if fact.part == "rule"}
    assert told["forbid x"] == ("held, weight 1",)
    assert told["forbid x-2"] == ("broken, weight 1",)


def test_the_task_file_of_today_moves_what_it_grades_otherwise() -> None:
    """What happens in a trial stays the stored task's: its faults, limits and instruction."""
    rule = ProcessRule.model_validate({"rule": "forbid", "call": {"tool": "create_replacement"}})
    now = LOST.model_copy(update={"process": (*LOST.process, rule), "faults": (), "instruction": "Other words."})
    found = again(LOST, "reconcile", lambda trace: with_task_of_now(trace, now))
    assert moved(found) == {("rule", "forbid create_replacement"), ("score", "process"), ("score", "total")}
    for script in ("reconcile", "new_id_retry"):
        same = again(LOST, script, lambda trace: with_task_of_now(trace, LOST))
        assert (same.moved, same.after.task) == ((), LOST.digest)


def test_a_judgement_says_by_which_graders_and_by_which_task_it_was_made() -> None:
    """Also where nothing moves: the outcomes are of other rules, and cannot simply be compared."""
    rule = ProcessRule.model_validate({"rule": "forbid", "call": {"tool": "cancel_device"}, "weight": 0.001})
    now = LOST.model_copy(update={"process": (*LOST.process, rule)})
    found = again(LOST, "reconcile", lambda trace: with_task_of_now(trace, now))
    assert (found.before.task, found.after.task) == (LOST.digest, now.digest)
    assert found.before.graders == found.after.graders
    other = now.model_copy(update={"faults": ()})
    assert again(LOST, "reconcile", lambda trace: with_task_of_now(trace, other)).after.task == now.digest, (
        "the task that was played, with the parts that grade it"
    )


def test_a_task_that_is_stored_in_an_older_form_is_the_same_task() -> None:
    """Its digest is that of its stored text, whatever it would be written as today."""
    trace = play(LOST, "reconcile")
    spec = trace.evidence.spec.model_copy(update={"task_digest": "sha256:of-its-older-form"})
    trace = replace(trace, evidence=trace.evidence.model_copy(update={"spec": spec}))
    before = asyncio.run(recorded(trace, MemoryObjects()))
    found = regrade(before, with_task_of_now(trace, LOST), Exams())
    assert found.before.task == found.after.task == "sha256:of-its-older-form"


def test_a_task_file_that_needs_facts_which_were_not_collected_is_refused() -> None:
    trace = play(LOST, "reconcile")
    wanted = {"kind": "authorisation", "collection": "replacements", "requires": "devices", "key_field": "serial"}
    more = AuthorisationContract.model_validate(wanted)
    with pytest.raises(BadInput, match="no facts were kept of devices"):
        with_task_of_now(trace, LOST.model_copy(update={"contracts": (*LOST.contracts, more)}))
    tests = REPAIR.contracts[0].model_copy(update={"timeout_s": 7.0})
    other = REPAIR.model_copy(update={"contracts": (tests, *REPAIR.contracts[1:])})
    with pytest.raises(BadInput, match="its tests are other ones now"):
        with_task_of_now(replace(trace, task=REPAIR), other)


REPAIR = FIRST["code-repair/repair"]


def exam_of(outcome: str) -> Exams:
    run = TestRun(
        expected=("tests.T.test_a",),
        reports=(TestReport.model_validate({"test": "tests.T.test_a", "outcome": outcome}),),
        exit_code=int(outcome != "passed"),
        finished=True,
    )
    return Exams(exams=(Exam(contract=0, visible=run, hidden=run),))


@pytest.mark.parametrize("outcome", ["passed", "failed"])
async def test_stored_examinations_are_facts_and_are_not_held_again(outcome: str) -> None:
    trace, objects = await asyncio.to_thread(play, REPAIR, "do_nothing"), MemoryObjects()
    before = await recorded(trace, objects, exam_of(outcome))
    found = regrade(before, *await stored_facts(before, objects))
    assert found.moved == ()
    assert next(one for one in found.after.contracts if one.kind == "tests").passed is (outcome == "passed")


async def test_an_examination_that_could_not_be_held_is_not_made_up() -> None:
    trace, objects = await asyncio.to_thread(play, REPAIR, "do_nothing"), MemoryObjects()
    before = await recorded(trace, objects, Exams(failed="no sandbox could be made"))
    assert before.validity is Validity.GRADER
    assert regrade(before, *await stored_facts(before, objects)).moved == ()


@pytest.mark.parametrize("part", ["trace", "exams"])
@pytest.mark.parametrize("damage", ["missing", "tampered"])
async def test_an_object_that_is_missing_or_tampered_with_is_named(part: str, damage: str) -> None:
    trace, objects = await asyncio.to_thread(play, REPAIR, "do_nothing"), MemoryObjects()
    before = await recorded(trace, objects, exam_of("passed"))
    name = getattr(before, part)
    if damage == "missing":
        del objects.contents[name]
    else:
        objects.contents[name] += b"!"
    with pytest.raises(InputMissing, match=f"the {part} {name} of do_nothing: object {name} "):
        await stored_facts(before, objects)


async def test_an_object_that_is_no_trace_is_named() -> None:
    before, objects = (
        await recorded(await asyncio.to_thread(play, LOST, "reconcile"), MemoryObjects()),
        MemoryObjects(),
    )
    other = before.model_copy(update={"trace": await objects.put(b"{}")})
    with pytest.raises(InputMissing, match=f"the trace {other.trace} of reconcile: trace: is not a compressed"):
        await stored_facts(other, objects)


async def test_an_episode_without_facts_is_refused_and_a_store_that_is_away_is_not_damage() -> None:
    class Away(MemoryObjects):
        async def get(self, name: str) -> bytes:
            raise ObjectsUnreachable("the bucket does not answer")

    before = await recorded(await asyncio.to_thread(play, LOST, "reconcile"), MemoryObjects())
    with pytest.raises(ObjectsUnreachable):
        await stored_facts(before, Away())
    with pytest.raises(BadInput, match="has no trace"):
        await stored_facts(before.model_copy(update={"trace": ""}), MemoryObjects())
