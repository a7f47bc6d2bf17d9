"""Shrinking: exactly what a failure needs is left, whatever it needs and however many are tried at once."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as some

from schemas.base import digest_of
from schemas.decision import Call, Decision
from schemas.episode import End, EpisodeResult, Validity
from schemas.grade import ContractResult
from schemas.recording import Recording
from schemas.slice import Ending
from schemas.task import Task
from tiltyard.episode.grading import examine
from tiltyard.errors import BadInput
from tiltyard.policies.catalogue import open_script
from tiltyard.policies.script import call, give_up, submit
from tiltyard.reopen.minimising import (
    Fails,
    Pieces,
    Shrunk,
    failing_contract,
    fails_alike,
    pieces_of,
    reasons,
    recording_of_pieces,
    shrink,
)
from tiltyard.reopen.recording import recording_of
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace, pack, unpack
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds


def asked(fails: Callable[[Pieces], bool], seen: list[Pieces] | None = None) -> Fails:
    async def ask(kept: Pieces) -> bool:
        if seen is not None:
            seen.append(kept)
        return fails(kept)

    return ask


def shrunk(pieces: Pieces, fails: Callable[[Pieces], bool], **options: int) -> Shrunk:
    return asyncio.run(shrink(pieces, asked(fails), **options))


TURNS = some.lists(some.integers(1, 4), max_size=25)
"""How many calls each turn has."""


def pieces(turns: list[int]) -> Pieces:
    return tuple((turn, call) for turn, calls in enumerate(turns) for call in range(calls))


@given(TURNS, some.data(), some.integers(1, 5))
def test_exactly_the_needed_calls_are_left(turns: list[int], data: some.DataObject, jobs: int) -> None:
    every = pieces(turns)
    needed = data.draw(some.sets(some.sampled_from(every))) if every else set()
    found = shrunk(every, lambda kept: needed <= set(kept), jobs=jobs)
    assert found.kept == tuple(sorted(needed))
    assert found.minimal


def odd(salt: int, every: Pieces, kept: Pieces) -> bool:
    """Fails for no reason that could be told beforehand: nearly as bad as an oracle can be."""
    return kept == every or int(digest_of([salt, kept])[-1], 16) < 5


@given(some.lists(some.integers(1, 3), max_size=8), some.integers(), some.integers(2, 5))
def test_whatever_it_needs_no_one_piece_more_can_be_left_out(turns: list[int], salt: int, jobs: int) -> None:
    every = pieces(turns)
    fails = partial(odd, salt, every)
    found = shrunk(every, fails)
    assert fails(found.kept)
    for turn in {turn for turn, _ in found.kept}:
        assert not fails(tuple(one for one in found.kept if one[0] != turn))
    for piece in found.kept:
        assert not fails(tuple(one for one in found.kept if one != piece))
    assert shrunk(every, fails, jobs=jobs).kept == found.kept, "it does not depend on how many are tried at once"


@given(TURNS, some.integers(0, 40))
def test_runs_are_bounded_and_the_best_so_far_is_told(turns: list[int], most: int) -> None:
    every = pieces(turns)
    needed = set(every[::3])
    seen: list[Pieces] = []
    found = asyncio.run(shrink(every, asked(lambda kept: needed <= set(kept), seen), jobs=3, most_runs=most))
    assert found.runs == len(seen) == len(set(seen)) <= most
    assert needed <= set(found.kept)
    assert found.minimal is (found.kept == tuple(sorted(needed)) and found.runs < most) or found.runs == most


def test_few_needed_of_many_take_few_runs() -> None:
    every = pieces([1] * 200)
    assert shrunk(every, lambda kept: {(17, 0), (150, 0)} <= set(kept)).runs < 60


RECORDING = Recording(
    decisions=(
        Decision(calls=(Call(tool="a"), Call(tool="b"), Call(tool="c"))),
        Decision(ask="May I?"),
        Decision(ask="Really?"),
        call("d"),
        submit({"done": True}),
    ),
    answers=("yes", None),
    ending=Ending.of(End.SUBMITTED),
)


def test_calls_are_left_out_of_turns_answers_with_their_questions_and_the_end_stays() -> None:
    assert pieces_of(RECORDING) == ((0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (3, 0))
    assert recording_of_pieces(RECORDING, pieces_of(RECORDING)) == RECORDING
    kept = recording_of_pieces(RECORDING, ((0, 0), (0, 2), (2, 0)))
    assert [one.tool for one in kept.decisions[0].calls] == ["a", "c"]
    assert (kept.decisions[1].ask, kept.answers) == ("Really?", (None,))
    assert kept.decisions[2:] == RECORDING.decisions[-1:]
    assert recording_of_pieces(RECORDING, ()).decisions == RECORDING.decisions[-1:]


LOST = shipped().task("replacement/reply-lost/1")
NUMBERS = count()
ENGINE = Engine(worlds(), MemoryWorlds())


async def played(task: Task, recording: Recording) -> EpisodeResult:
    evidence = await rehearse(task, recording, ENGINE, name=f"trial-{next(NUMBERS)}")  # some run at once
    trace = unpack(pack(Trace(task, ENGINE.describe(task.world), evidence)))
    return examine(trace.task, trace.evidence, trace.tools)


def recorded(script: str) -> Recording:
    evidence = asyncio.run(rehearse(LOST, open_script(script, LOST), ENGINE))
    return recording_of(Trace(LOST, ENGINE.describe(LOST.world), evidence))


def minimised(recording: Recording, contract: str | None, any_reason: bool = False) -> tuple[Recording, Shrunk]:
    wanted = failing_contract(asyncio.run(played(LOST, recording)), contract)

    async def fails(kept: Pieces) -> bool:
        result = await played(LOST, recording_of_pieces(recording, kept))
        return fails_alike(result, wanted, any_reason=any_reason)

    found = asyncio.run(shrink(pieces_of(recording), fails, jobs=4))
    return recording_of_pieces(recording, found.kept), found


def tools(recording: Recording) -> list[str]:
    return [call.tool for decision in recording.decisions for call in decision.calls]


def test_a_duplicate_needs_its_two_orders_and_nothing_else() -> None:
    recording = recorded("new_id_retry")
    assert len(tools(recording)) == 7
    kept, found = minimised(recording, "receipts")
    assert tools(kept) == ["create_replacement", "create_replacement"]
    assert kept.decisions[-1] == recording.decisions[-1]
    assert found.minimal


def test_for_another_contract_other_calls_are_needed() -> None:
    kept, _ = minimised(recorded("new_id_retry"), "state")
    assert tools(kept) == ["create_replacement", "create_replacement", "close_ticket"]


def test_any_reason_is_failed_by_doing_nothing() -> None:
    kept, _ = minimised(recorded("new_id_retry"), "receipts", any_reason=True)
    assert tools(kept) == []


def planted(noise: int) -> Recording:
    """The duplicate among many looks: what is needed is not at either end."""
    recording = recorded("new_id_retry")
    looks = (call("get_ticket", ticket_id="T-2301"), call("list_policies")) * noise
    *before, end = recording.decisions
    made = [one for decision in before for one in (*looks, decision)]
    return recording.model_copy(update={"decisions": (*made, end)})


def test_noise_is_shed() -> None:
    assert len(tools(planted(1))) == 21
    kept, found = minimised(planted(1), "settled")
    assert tools(kept) == ["create_replacement", "create_replacement"]
    assert found.runs < 60


def contract(*why: str, name: str = "state") -> ContractResult:
    return ContractResult(name=name, kind="state", passed=not why, why=why)


TWICE = "x took effect 2 times (turn 4, call 0; turn 5, call 0)"


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (TWICE, "x took effect 2 times (turn 0, call 0; turn 1, call 2)", True),
        (TWICE, "x took effect 0 times", False),
        (TWICE, "x took effect 1 time (turn 4, call 0)", False),
        ("after turn 4, call 0, request 12", "after turn 1, call 1", True),
        ('r was created: {"accepted_at_s":95,"id":"R-1"}', 'r was created: {"accepted_at_s":5,"id":"R-1"}', True),
        ('r was created: {"accepted_at_s":95,"id":"R-1"}', 'r was created: {"accepted_at_s":95,"id":"R-2"}', False),
        ('r was created: {"accepted_at_s":95,"shi…', 'r was created: {"accepted_at_s":5,"ship…', True),
        ("available is 3, not 4", "available is 5, not 4", False),
    ],
)
def test_the_same_reason_is_the_same_but_for_where_and_when(one: str, other: str, alike: bool) -> None:
    assert (reasons(contract(one)) == reasons(contract(other))) is alike


def result(*contracts: ContractResult, validity: Validity = Validity.VALID) -> EpisodeResult:
    made = {"episode_id": "e-1", "task": "a/b/1", "policy": "p", "seed": 0, "end": End.SUBMITTED}
    return EpisodeResult.model_validate({**made, "validity": validity, "contracts": contracts})


def test_the_first_contract_that_failed_is_taken_where_none_is_named() -> None:
    found = result(contract(name="a"), contract("x", name="b"), contract("y", name="c"))
    assert failing_contract(found, None).name == "b"
    assert failing_contract(found, "c").name == "c"


@pytest.mark.parametrize(
    ("given", "name", "said"),
    [
        (result(contract(name="a")), None, "no contract failed"),
        (result(contract(name="a"), contract("x", name="b")), "a", "a passed"),
        (result(contract("x", name="b")), "z", "there is no contract z"),
        (result(contract("x"), validity=Validity.ENVIRONMENT), None, "says nothing of its policy"),
    ],
)
def test_what_cannot_be_shrunk_is_refused(given: EpisodeResult, name: str | None, said: str) -> None:
    with pytest.raises(BadInput, match=said) as caught:
        failing_contract(given, name)
    assert caught.value.fix


def test_a_trial_that_does_not_count_does_not_fail_alike() -> None:
    wanted = contract("x")
    assert fails_alike(result(wanted), wanted)
    assert not fails_alike(result(wanted, validity=Validity.ENVIRONMENT), wanted)
    assert not fails_alike(result(), wanted, any_reason=True)


def test_an_episode_that_gave_up_ends_so_too() -> None:
    recording = Recording(decisions=(call("a"), give_up("no")), ending=Ending.of(End.GAVE_UP, "no"))
    assert pieces_of(recording) == ((0, 0),)
