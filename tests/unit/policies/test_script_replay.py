"""A script is a function of the view: played again from any transcript it decides the same, whoever asks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.decision import Call, Decision
from schemas.observation import Observation
from schemas.task import Task
from schemas.tool import ToolSpec
from schemas.view import Budgets, Turn, View
from tiltyard.policies.catalogue import SCRIPTS, open_script
from tiltyard.policies.script import Brief, Moves, ScriptPolicy, call, field, give_up, submit
from tiltyard.sandbox.tools import TOOLS as SANDBOX
from tiltyard.suite import shipped
from tiltyard.worlds.code_repair.tickets import close_ticket, get_ticket
from tiltyard.worlds.replacement.world import WORLD

TASK = shipped().task("replacement/reply-lost/1")
REPAIR = shipped().task("code-repair/repair/1")
TOOLS = tuple(tool.spec for tool in (*WORLD.tools.values(), get_ticket, close_ticket, *SANDBOX.values()))
BY_ITSELF = sorted(name for name, script in SCRIPTS.items() if not script.needs_solution)


def home_of(name: str) -> Task:
    """A task that the script is for."""
    return REPAIR if SCRIPTS[name].needs_sandbox else TASK


def view(*transcript: Turn, instruction: str = TASK.instruction, tools: tuple[ToolSpec, ...] = TOOLS) -> View:
    budgets = Budgets(turns=40, tool_calls=200)
    return View(
        instruction=instruction, tools=tools, transcript=transcript, budgets=budgets, seed=7, turn=len(transcript)
    )


def shown(content: object, status: str = "ok") -> Observation:
    return Observation.model_validate({"tool": "any", "status": status, "content": content})


def two_looks(brief: Brief) -> Moves:
    """Looks twice, and submits both."""
    first = yield call("look", at="a")
    second = yield call("look", at=field(first, "next"))
    return submit({"first": field(first, "next"), "second": field(second, "next")})


async def test_what_a_script_does_next_is_read_off_the_transcript() -> None:
    one = Turn(decision=call("look", at="a"), observations=(shown({"next": "b"}),))
    two = Turn(decision=call("look", at="b"), observations=(shown({"next": "c"}),))
    policy = ScriptPolicy(two_looks)
    assert await policy.act(view(one, two)) == submit({"first": "b", "second": "c"})
    assert await policy.act(view(one)) == call("look", at="b")  # the order of asking leaves no trace
    assert await policy.act(view()) == call("look", at="a")
    assert await ScriptPolicy(two_looks).act(view(one)) == call("look", at="b")


async def test_a_script_goes_on_after_a_decision_with_a_memo() -> None:
    def remembers(brief: Brief) -> Moves:
        yield call("look").model_copy(update={"memo": "seen"})
        return submit({})

    one = Turn(decision=call("look"), observations=(shown(None),))  # a transcript leaves memos out
    assert await ScriptPolicy(remembers).act(view(one)) == submit({})


async def test_a_script_takes_over_after_somebody_elses_turns() -> None:
    foreign = Turn(decision=call("dance"), observations=(shown(None),))
    one = Turn(decision=call("look", at="a"), observations=(shown({"next": "b"}),))
    assert await ScriptPolicy(two_looks).act(view(foreign)) == call("look", at="a")
    assert await ScriptPolicy(two_looks).act(view(foreign, foreign, one)) == call("look", at="b")


async def test_a_script_that_ends_without_a_decision_gives_up() -> None:
    def fades(brief: Brief) -> Moves:
        yield call("look")
        return None  # type: ignore[return-value]  # what a careless author writes

    one = Turn(decision=call("look"), observations=(shown(None),))
    assert await ScriptPolicy(fades).act(view(one)) == give_up("the script has ended")


@pytest.mark.parametrize("name", BY_ITSELF)
async def test_scripts_stop_at_once_in_a_world_that_they_do_not_know(name: str) -> None:
    """Those of sandboxes play wherever there is one."""
    ends = []
    foreign = () if SCRIPTS[name].needs_sandbox else TOOLS
    for instruction, tools in [("Cancel order #W1.", foreign), (home_of(name).instruction, ()), ("T-1", ())]:
        decision = await open_script(name, home_of(name)).act(view(instruction=instruction, tools=tools))
        ends.append(decision.submit is not None or decision.give_up is not None)
    assert all(ends)


NAMES = [
    *("ticket_id", "serial", "cause", "approval_ids", "status", "model", "result", "replacement_id"),
    *("policy_id", "text", "rank", "effective_on", "next_delivery_in_s", "approval_id"),
    *("stdout", "content"),
]
FILES = st.fixed_dictionaries(
    {
        "stdout": st.sampled_from(["", "test_a.py\ntest_b.py\n", "test_a.py\n" * 50, "x"]),
        "content": st.sampled_from(
            [
                "from a.b import f\nself.assertEqual(f(1, [2]), {3: 4})",
                "from a import f as g\nself.assertEqual(g(x=1), 2)\nself.assertEqual(g(*a), 2)",
                "self.assertEqual(f(), {[]})",
                "def (",
            ]
        )
        | st.text(max_size=20),
    }
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=8,
)
CODES = st.sampled_from(["", "not_found", "receipt_pending", "out_of_stock", "unavailable"])
OBSERVATIONS = st.builds(
    lambda status, content, code: Observation(tool="x", status=status, content=content, code=code),
    st.sampled_from(["ok", "ok", "ok", "error", "timeout"]),
    ANYTHING | FILES,
    CODES,
)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(BY_ITSELF), answers=st.lists(OBSERVATIONS, min_size=1, max_size=8))
async def test_whatever_a_world_answers_a_script_comes_to_an_end(name: str, answers: list[Observation]) -> None:
    """It neither raises nor goes on for ever, and every decision can be journalled."""
    policy, instruction = open_script(name, home_of(name)), home_of(name).instruction
    transcript: list[Turn] = []
    for number in range(60):
        decision = await policy.act(view(*transcript, instruction=instruction))
        assert Decision.model_validate_json(decision.model_dump_json()) == decision
        if not decision.calls:
            return
        transcript.append(Turn(decision=decision, observations=(answers[number % len(answers)],)))
    raise AssertionError(f"{name} goes on after 60 turns")


def test_operation_ids_depend_on_seed_and_purpose_alone() -> None:
    ids = {
        (seed, purpose): Brief("any", frozenset(), seed).operation_id(purpose)
        for seed in (0, 1)
        for purpose in ("a", "b")
    }
    assert len(set(ids.values())) == 4
    assert ids[1, "b"] == Brief("another text", frozenset({"tool"}), 1).operation_id("b")


def test_one_call_is_one_decision() -> None:
    assert call("look", at="a") == Decision(calls=(Call(tool="look", arguments={"at": "a"}),))
