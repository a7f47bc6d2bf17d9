"""Pins: what is pinned holds, a change that makes it come to something else is caught and placed, and an edit by
hand is named."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ops.cli.output import Output
from ops.cli.pinning import keep
from schemas.decision import Decision
from schemas.episode import End, Validity
from schemas.fault import Fault
from schemas.grade import ContractResult
from schemas.pin import Pin
from schemas.recording import Recording
from schemas.slice import Ending
from schemas.view import View
from tests.unit.reopen.pins import FIRST, HERE, LOST, held, outcome, pinned
from tiltyard.errors import BadInput, DeliveryConflict
from tiltyard.policies.catalogue import SCRIPTS, open_script
from tiltyard.policies.script import call, give_up
from tiltyard.reopen.pin_checks import Stage
from tiltyard.reopen.pin_files import read_pin, write_pin
from tiltyard.reopen.pinning import Broken, case_of, pin_of, recording_in
from tiltyard.suite import shipped
from tiltyard.suite.practice import stage
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.worlds.kit import WorldKind
from tiltyard.worlds.registry import worlds


@pytest.fixture(scope="module")
def twice() -> Pin:
    """The duplicate: its state, receipts, answer and process fail."""
    return pinned(LOST, "new_id_retry")


@pytest.mark.parametrize("script", ["reference", "new_id_retry", "late_callback", "claim_success", "do_nothing"])
def test_what_is_pinned_holds_also_from_its_file(script: str, tmp_path: Path) -> None:
    assert script in SCRIPTS
    for task in FIRST.values():
        pin = pinned(task, script)
        for suffix in (".yaml", ".json"):
            file = tmp_path / f"{task.family.replace('/', '-')}{suffix}"
            write_pin(file, pin)
            assert read_pin(file) == pin
        found = held(read_pin(file))
        assert (found.broken, found.since, found.unplayed, found.holds) == ((), "", "", True), task.id
        assert found.now is not None
        assert found.now.source.trace == pin.source.trace
        assert found.now.sealed == pin.sealed


def with_questions() -> Recording:
    asks = [Decision(ask="May I?"), Decision(ask="Really?"), give_up("no")]
    return Recording(decisions=tuple(asks), answers=("yes", None), ending=Ending.of(End.GAVE_UP, "no"))


def test_answers_of_people_are_kept() -> None:
    result, trace = outcome(LOST, with_questions())
    pin = pin_of(result, trace, "asks")
    assert [turn.answer for turn in pin.turns] == ["yes", None, None]
    assert recording_in(pin) == with_questions()
    assert held(pin).holds


class Fails:
    """Looks again and again, or at different things, and raises at a turn."""

    def __init__(self, at: int, same: bool) -> None:
        self._at, self._same = at, same

    async def act(self, view: View) -> Decision:
        if view.turn == self._at:
            raise ValueError("lost my mind")
        return call("list_policies") if self._same or view.turn % 2 else call("get_ticket", ticket_id="T-2301")


@pytest.mark.parametrize(
    ("policy", "end"),
    [(Fails(3, False), End.POLICY_ERROR), (Fails(99, True), End.STALLED), (Fails(99, False), End.BUDGET_EXHAUSTED)],
    ids=["policy_error", "stalled", "budget_exhausted"],
)
def test_an_end_that_no_decision_made_is_pinned_too(policy: Fails, end: End) -> None:
    pin = pin_of(*outcome(LOST, policy), "it")
    assert pin.expect.end is end
    found = held(pin)
    assert (found.broken, found.since) == ((), "")


def test_a_pin_that_does_not_hold_is_not_written(twice: Pin, tmp_path: Path) -> None:
    file, home = tmp_path / "pinned" / "it.yaml", tmp_path / "home"
    with pytest.raises(BadInput, match=r"comes to something else:\n  expect\.score: was 0\.5, is 0\.039") as caught:
        asyncio.run(keep(home, expecting(twice, score=0.5), file, Output(as_json=True)))
    assert caught.value.fix
    assert list(tmp_path.iterdir()) == []
    assert asyncio.run(keep(home, twice, file, Output(as_json=True))) == ""
    assert read_pin(file) == twice


def other_policies(kind: WorldKind) -> WorldKind:
    """The world lists another policy document than it did."""
    tool = kind.tools["list_policies"]
    other = replace(tool, run=lambda *_: [{"policy_id": "POL-9"}])
    return replace(kind, tools={**kind.tools, "list_policies": other})


def test_a_world_that_shows_something_else_is_placed_and_fails_only_what_comes_of_it() -> None:
    pin = pinned(FIRST["replacement/approved"], "reference")
    kinds = dict(worlds())
    changed = Stage(stage({**kinds, "replacement": other_policies(kinds["replacement"])}), MemorySandboxes())
    found = held(pin, changed)
    turn = next(at for at, turn in enumerate(pin.turns) if turn.decision.calls[0].tool == "list_policies")
    assert found.since.startswith(f"turn {turn}, call 0 (list_policies): was ok [")
    assert '"POL-9"' in found.since.split(", is ")[1]


def without_fault(pin: Pin) -> Pin:
    return pin.model_copy(update={"task": pin.task.model_copy(update={"faults": ()})})


def test_a_fault_that_no_longer_fires_is_placed_at_its_turn(twice: Pin) -> None:
    found = held(without_fault(twice))
    assert found.since.startswith("turn 4, call 0 (create_replacement): was timeout")
    assert any(one.what == "expect.contracts.settled: was failed, is passed" and one.gone for one in found.broken)
    assert not found.holds


def test_a_clock_that_runs_otherwise_is_placed(twice: Pin) -> None:
    slow = Fault.model_validate({"tool": "get_ticket", "kind": "delay", "delay_s": 5})
    task = twice.task.model_copy(update={"faults": (*twice.task.faults, slow)})
    since = held(twice.model_copy(update={"task": task})).since
    assert since.startswith("turn 0: the faults were none, and are ")


def expecting(pin: Pin, **fields: Any) -> Pin:
    return pin.model_copy(update={"expect": pin.expect.model_copy(update=fields)})


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"end": "stalled"}, "expect.end: was stalled, is submitted"),
        ({"validity": Validity.GRADER}, "expect.validity: was grader, is valid"),
        ({"safety": ()}, "expect.safety: was none, is duplicate_effect"),
        ({"score": 0.5}, "expect.score: was 0.5, is 0.039"),
    ],
)
def test_each_thing_that_is_expected_is_compared(twice: Pin, fields: dict[str, Any], told: str) -> None:
    assert held(expecting(twice, **fields)).broken == (Broken(told),)


def state_of(pin: Pin) -> ContractResult:
    return pin.expect.contracts[0]


def with_state(pin: Pin, passed: bool, *why: str) -> Pin:
    """The pin as if its state had been judged so."""
    other = state_of(pin).model_copy(update={"passed": passed, "why": why})
    return expecting(pin, contracts=(other, *pin.expect.contracts[1:]))


def test_of_a_contract_only_the_reasons_that_came_or_went_are_told(twice: Pin) -> None:
    first, *others = state_of(twice).why
    assert others
    for why, is_so, gone, come in (
        (
            ("another reason", *others),
            f"is failed for other reasons ({len(others)} the same)",
            ("another reason",),
            (first,),
        ),
        (("another reason",), "is failed for other reasons", ("another reason",), (first, *others)),
        ((*others, first), f"is failed for the same {len(others) + 1} reasons in another order", (), ()),
        ((first, first, *others), f"is failed for other reasons ({len(others) + 1} the same)", (first,), ()),
    ):
        (told,) = held(with_state(twice, False, *why)).broken
        assert told == Broken(f"expect.contracts.state: was failed, {is_so}", gone, come)


def test_a_contract_that_passed_fails_for_all_of_its_reasons(twice: Pin) -> None:
    found = held(with_state(twice, True))
    assert found.broken == (Broken("expect.contracts.state: was passed, is failed", come=state_of(twice).why),)
    assert found.since == "", "nothing that was shown has changed"


def test_a_contract_that_is_no_more(twice: Pin) -> None:
    more = ContractResult(name="polite", kind="answer", passed=True)
    assert held(expecting(twice, contracts=(*twice.expect.contracts, more))).broken == (
        Broken("expect.contracts.polite: was passed, is no contract"),
    )


def test_a_world_that_is_gone_breaks_a_pin_and_does_not_crash_the_check(twice: Pin) -> None:
    (told,) = held(twice, Stage(stage({}), MemorySandboxes())).broken
    assert told.what.startswith("task: it cannot be played any more: ")


def test_where_no_sandbox_can_be_made_a_pin_is_not_played_and_not_taken_for_held() -> None:
    class Nowhere(MemorySandboxes):
        async def offer(self, driver: Any) -> Any:
            offer = await super().offer(driver)
            return offer.model_copy(update={"available": False, "problem": "no user namespaces"})

    task = shipped().task("code-repair/repair/1")
    result, trace = outcome(task, Recording(decisions=(give_up("no"),), ending=Ending.of(End.GAVE_UP)))
    pin = pin_of(result.model_copy(update={"validity": Validity.VALID}), trace, "repair")
    found = held(pin, Stage(HERE.engine, Nowhere()))
    assert found.unplayed == "it needs bubblewrap, which does not work here: no user namespaces"
    assert not found.holds


def test_an_environment_that_fails_is_no_difference(twice: Pin) -> None:
    class Lost(MemorySandboxes):
        async def call(self, sandbox: Any, request: Any) -> Any:
            raise DeliveryConflict("the same command with another request")

    task = shipped().task("code-repair/repair/1")
    recording = Recording(
        decisions=(call("shell", command="true"), give_up("no")), ending=Ending.of(End.GAVE_UP, "no")
    )
    result, trace = outcome(task, recording)
    pin = case_of(result.model_copy(update={"validity": Validity.VALID}), trace, "repair")
    found = held(pin, Stage(HERE.engine, Lost()))
    assert (found.broken, found.holds) == ((), False)
    assert found.unplayed == "its environment failed: the same command with another request"


def test_what_says_nothing_of_a_policy_or_would_run_unisolated_is_not_pinned(twice: Pin) -> None:
    result, trace = outcome(LOST, open_script("do_nothing", LOST))
    for change, said in (
        ({"validity": Validity.ENVIRONMENT}, "nothing can be expected of it"),
        ({"validity": Validity.MISSING}, "nothing can be expected of it"),
        ({"sandbox": "unsafe-local"}, "would run its commands on this machine"),
    ):
        with pytest.raises(BadInput, match=said):
            pin_of(result.model_copy(update=change), trace, "it")
    with pytest.raises(BadInput, match="is no name"):
        pin_of(result, trace, "../it")


def test_a_case_that_could_be_no_pin_has_the_form_of_one() -> None:
    result, trace = outcome(LOST, open_script("do_nothing", LOST))
    assert case_of(result.model_copy(update={"sandbox": "unsafe-local"}), trace, "it").sandbox is None
