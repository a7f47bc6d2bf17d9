"""Recordings: what is taken from a trace, how it is kept, and how it is played."""

import asyncio
from typing import Any

import pytest

from schemas.base import canonical
from schemas.contract import AnswerContract
from schemas.decision import Call, Decision
from schemas.episode import End, EpisodeSpec, PolicySpec
from schemas.recording import RECORDED, Recording
from schemas.slice import Ending
from schemas.task import Reference, Step, Task
from schemas.view import View
from tiltyard.errors import BadPolicy, InputMissing
from tiltyard.policies.catalogue import open_script, shipped
from tiltyard.policies.recorded import PoliciesAndRecordings, keep, load
from tiltyard.reopen.recording import recording_of
from tiltyard.suite import shipped as suite
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_policies import MemoryPolicies
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.testing.tally_world import TALLY
from tiltyard.trace import Trace, trace_digest
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds

ADD = Call(tool="add", arguments={"count": 1})


def task(**update: Any) -> Task:
    base = Task(
        id="tally/ask/1",
        world="tally",
        instruction="Ask twice.",
        contracts=(AnswerContract(accept=({"said": "red"},)),),
        references=(Reference(steps=(Step(submit={}),)),),
    )
    return base.model_copy(update=update)


class Scripted:
    """Plays decisions, then gives up."""

    def __init__(self, *decisions: Decision) -> None:
        self.decisions = decisions

    async def act(self, view: View) -> Decision:
        return self.decisions[view.turn] if view.turn < len(self.decisions) else Decision(give_up="done")


def played(of: Task, policy: Scripted | Recording, name: str = "one") -> Trace:
    engine = Engine({"tally": TALLY}, MemoryWorlds())
    evidence = asyncio.run(rehearse(of, policy, engine, name=name))
    return Trace(of, engine.describe(of.world), evidence)


def digest(trace: Trace) -> str:
    evidence = trace.evidence
    return trace_digest(trace.task, evidence.facts, evidence.turns, evidence.ending.end, evidence.sandbox)


def test_a_recording_makes_the_same_happen_again_in_another_environment() -> None:
    suite_task = suite().task("replacement/reply-lost/1")
    engine = Engine(worlds(), MemoryWorlds())
    first = asyncio.run(rehearse(suite_task, open_script("reconcile", suite_task), engine, name="first", seed=3))
    recording = recording_of(Trace(suite_task, (), first))
    again = asyncio.run(rehearse(suite_task, recording, engine, name="again", seed=3))
    assert again.spec.policy.target == RECORDED
    assert digest(Trace(suite_task, (), again)) == digest(Trace(suite_task, (), first))


def test_answers_are_taken_in_the_order_of_the_questions() -> None:
    asks = Scripted(Decision(ask="Which?"), Decision(calls=(ADD,)), Decision(ask="And?"), Decision(ask="Last?"))
    trace = played(task(answers=("red", "blue")), asks)
    assert recording_of(trace).answers == ("red", "blue", None)


@pytest.mark.parametrize("answers", [("other",), None])
def test_a_recording_has_its_answers_whoever_gave_them(answers: tuple[str, ...] | None) -> None:
    asks = Scripted(Decision(ask="Which?"), Decision(ask="And?"))
    recording = recording_of(played(task(answers=("red",)), asks))
    shown = [turn.observations for turn in played(task(answers=answers), recording).evidence.turns]
    assert [one[0].content for one in shown if one and one[0].tool == "ask"] == ["red", None]
    nobody = shown[1]
    assert nobody is not None
    assert nobody[0].message == ("nobody answered" if answers is not None else "nobody answered in time")


def test_a_wait_in_real_time_takes_none_in_a_replay() -> None:
    waits = Decision(calls=(Call(tool="wait", arguments={"seconds": 86_400}),))
    recording = Recording(decisions=(waits,), ending=Ending.of(End.CANCELLED, "stopped"))
    trace = played(task(waiting="real"), recording)
    assert trace.evidence.turns[0].now_s >= 86_400


def test_where_decisions_run_out_the_recorded_ending_stands() -> None:
    ending = Ending.of(End.CANCELLED, "stopped by request")
    trace = played(task(), Recording(decisions=(Decision(calls=(ADD,)),), ending=ending))
    assert trace.evidence.ending == ending
    assert len(trace.evidence.turns) == 1


def test_an_open_turn_is_left_out() -> None:
    trace = played(task(), Scripted(Decision(calls=(ADD,))))
    turns = (trace.evidence.turns[0], trace.evidence.turns[1].model_copy(update={"observations": None}))
    cut = Trace(trace.task, trace.tools, trace.evidence.model_copy(update={"turns": turns}))
    assert recording_of(cut).decisions == (Decision(calls=(ADD,)),)


async def test_a_recording_is_kept_and_loaded() -> None:
    objects = MemoryObjects()
    recording = Recording(decisions=(Decision(give_up="no"),), answers=("a", None), ending=Ending.of(End.GAVE_UP))
    assert await load(objects, await keep(objects, recording)) == recording


async def test_what_is_no_recording_is_named() -> None:
    objects = MemoryObjects()
    name = await objects.put(canonical({"decisions": [{}], "ending": {"end": "gave_up"}}))
    with pytest.raises(InputMissing, match=r"the recording sha256:.*: decisions\.0"):
        await load(objects, name)
    with pytest.raises(InputMissing, match="is missing"):
        await load(objects, "sha256:" + "0" * 64)


async def test_policies_are_asked_for_everything_but_recordings() -> None:
    objects, others = MemoryObjects(), MemoryPolicies({"one": lambda view: Decision(give_up="no")})
    policies = PoliciesAndRecordings(others, objects)
    spec = EpisodeSpec(
        episode_id="e-1",
        task_id="tally/ask/1",
        task_digest="",
        world="tally",
        policy=PolicySpec(target="two"),
        limits=task().limits,
    )
    with pytest.raises(BadPolicy):
        await policies.open("e-1", spec, task())
    await policies.close("e-1")
    assert others.closed == ["e-1"]


async def test_only_what_plays_a_recording_says_so() -> None:
    objects, others = MemoryObjects(), MemoryPolicies({"one": lambda view: Decision(give_up="no")})
    policies = PoliciesAndRecordings(others, objects)
    recording = Recording(decisions=(Decision(give_up="no"),), ending=Ending.of(End.GAVE_UP))
    digest = await keep(objects, recording)
    for policy, said in ((PolicySpec(target="one"), None), (PolicySpec(target=RECORDED, digest=digest), recording)):
        spec = EpisodeSpec(
            episode_id="e-1",
            task_id="tally/ask/1",
            task_digest="",
            world="tally",
            policy=policy,
            limits=task().limits,
        )
        assert (await policies.open("e-1", spec, task())).recording == said


def test_nobody_runs_a_recording_by_its_name() -> None:
    with pytest.raises(BadPolicy, match="tiltyard replay EPISODE"):
        shipped(RECORDED)
