"""The turns of an episode, from the lease to the outcome."""

from pathlib import Path

import pytest
from temporalio.client import Client

from schemas.decision import Decision
from schemas.episode import End, Validity
from schemas.start import Tuning
from schemas.task import Limits
from schemas.view import View
from tests.workflow.arena import arena, calls, honest, tally_task, until
from tiltyard.trace import unpack


async def test_an_honest_episode_is_submitted_graded_and_leaves_nothing(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "honest")
        await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID)
        assert result.score.completion == 1
        assert (result.counts.turns, result.counts.tool_calls, result.counts.effects) == (2, 1, 1)
        assert result.timings.keys() == {"lease", "turns", "close", "seal", "drain", "collect", "grade"}
        assert result.timings == {phase: round(seconds, 3) for phase, seconds in result.timings.items()}
        await place.assert_nothing_left(spec)


def raising(view: View) -> Decision:
    raise ZeroDivisionError("a bug of the policy")


def nonsense(view: View) -> Decision:
    return "do it"  # type: ignore[return-value]  # what a policy must not return


def adding_for_ever(view: View) -> Decision:
    return calls("add", name="apples", amount=view.turn + 1)


def repeating(view: View) -> Decision:
    return calls("read", name="apples")


def waiting_for_ever(view: View) -> Decision:
    return calls("wait", seconds=60 + view.turn)


def giving_up(view: View) -> Decision:
    return Decision(give_up="it is too hard")


def talking(view: View) -> Decision:
    return Decision(calls=adding_for_ever(view).calls, tokens=100)


@pytest.mark.parametrize(
    ("policy", "limits", "end", "reason", "turns"),
    [
        (giving_up, Limits(), End.GAVE_UP, "it is too hard", 1),
        (raising, Limits(), End.POLICY_ERROR, "the policy raised ZeroDivisionError: a bug of the policy", 0),
        (nonsense, Limits(), End.POLICY_ERROR, "the policy returned str, not a Decision", 0),
        (repeating, Limits(), End.STALLED, "5 calls of read with unchanged arguments", 5),
        (adding_for_ever, Limits(turns=7), End.BUDGET_EXHAUSTED, "turns", 7),
        (adding_for_ever, Limits(tool_calls=3), End.BUDGET_EXHAUSTED, "tool_calls", 4),
        (waiting_for_ever, Limits(virtual_s=150), End.BUDGET_EXHAUSTED, "virtual_s", 4),
        (talking, Limits(tokens=250), End.BUDGET_EXHAUSTED, "tokens", 4),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
async def test_each_end_is_recorded(
    client: Client, tmp_path: Path, policy: object, limits: Limits, end: End, reason: str, turns: int
) -> None:
    assert callable(policy)
    async with arena(client, {"policy": policy}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(limits=limits), "policy")
        await (await place.start(spec)).result()
        result = await place.outcome(spec)
        assert (result.end, result.reason, result.counts.turns) == (end, reason, turns)
        assert result.validity is Validity.VALID
        assert result.score.completion == 0
        await place.assert_nothing_left(spec)


async def test_the_last_turn_of_a_budget_comes_with_one_notice(client: Client, tmp_path: Path) -> None:
    notices: list[str] = []

    def noting(view: View) -> Decision:
        notices.append(view.notice)
        return adding_for_ever(view)

    async with arena(client, {"noting": noting}, tmp_path) as place, place.worker():
        await place.run(tally_task(limits=Limits(turns=4)), "noting")
        assert [bool(notice) for notice in notices] == [False, False, False, True]
        notices.clear()
        await place.run(tally_task(limits=Limits(tool_calls=2)), "noting")
        assert [bool(notice) for notice in notices] == [False, False, True]


async def test_a_policy_that_hangs_ends_within_its_time_and_holds_nothing_up(
    client: Client, tmp_path: Path
) -> None:
    async def hanging(view: View) -> Decision:
        await until(lambda: False, seconds=3600)
        raise AssertionError

    async with arena(client, {"hanging": hanging, "honest": honest}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(limits=Limits(turn_s=0.5)), "hanging")
        handle = await place.start(spec)
        assert (await place.run(tally_task(), "honest")).end is End.SUBMITTED
        await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.reason) == (End.POLICY_ERROR, "the policy gave no decision within 0.5 s")
        await place.assert_nothing_left(spec)


async def test_wall_time_runs_out_with_a_notice_before(client: Client, tmp_path: Path) -> None:
    notices: list[str] = []

    async def slow(view: View) -> Decision:
        notices.append(view.notice)
        await until(lambda: bool(view.notice), seconds=10) if view.turn > 3 and not view.notice else None
        return adding_for_ever(view)

    async with arena(client, {"slow": slow}, tmp_path) as place, place.worker():
        limits = Limits(wall_s=1.5, turn_s=30)
        result = await place.run(tally_task(limits=limits), "slow", Tuning(slice_s=0.2, heartbeat_s=2))
        assert (result.end, result.reason) == (End.BUDGET_EXHAUSTED, "wall time")


async def test_unknown_tools_and_bad_arguments_are_observations_that_name_the_field(
    client: Client, tmp_path: Path
) -> None:
    def clumsy(view: View) -> Decision:
        return (
            calls("fly"),
            calls("add", nom="apples"),
            calls("add", name="apples", amount="many"),
            Decision(give_up="enough"),
        )[view.turn]

    async with arena(client, {"clumsy": clumsy}, tmp_path) as place, place.worker():
        result = await place.run(tally_task(), "clumsy")
        turns = unpack(await place.objects.get(result.trace)).evidence.turns
        shown = [observation for turn in turns for observation in turn.observations or ()]
        assert [(one.status, one.code) for one in shown] == [
            ("error", "unknown_tool"),
            ("error", "bad_arguments"),
            ("error", "bad_arguments"),
        ]
        assert "fly" in shown[0].message
        assert "name" in shown[1].message
        assert "amount" in shown[2].message
        assert result.counts.effects == 0
