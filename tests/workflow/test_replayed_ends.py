"""Episodes of every end, replayed by real workflows: what had ended before is the same, and what is not is said."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from schemas.decision import Decision
from schemas.episode import End, EpisodeResult, EpisodeSpec
from schemas.replay import Verdict
from schemas.start import Tuning
from schemas.task import Limits, Settle, Task
from schemas.view import View
from tests.workflow.arena import QUICK, Arena, arena, calls, honest, lingering, started, tally_task, until
from tests.workflow.boxes import box_task, sleeper
from tests.workflow.test_waiting import DAY, patient
from tiltyard.errors import InputMissing
from tiltyard.reopen.replaying import Replaying
from tiltyard.reopen.verdicts import UNGRADED
from tiltyard.trace import unpack
from workers.ground import new_episode_id

OPEN = "turn 1, which was open when the original ended ({})"


async def replayed(
    place: Arena, spec: EpisodeSpec, tuning: Tuning = QUICK, *, strict: bool = False
) -> tuple[Verdict, EpisodeResult]:
    """(what a replay of the episode found, its outcome)."""
    replaying = Replaying(place.records, place.objects)
    original = await replaying.original(spec.episode_id)
    planned = await replaying.plan(original, new_episode_id())
    await place.records.plan([planned])
    await (await place.start(planned, tuning)).result()
    result = await place.outcome(planned)
    await place.assert_nothing_left(planned)
    return await replaying.verdict(original, result, strict=strict), result


def same(verdict: Verdict, *not_compared: str) -> None:
    assert not verdict.diverged, verdict
    assert verdict.not_compared == not_compared


def fails(view: View) -> Decision:
    if view.turn:
        raise ValueError("lost my mind")
    return calls("add", name="apples")


def repeats(view: View) -> Decision:
    return calls("read", name="apples")


def gives_up(view: View) -> Decision:
    return Decision(give_up="no") if view.turn else calls("add", name="apples")


def naps(view: View) -> Decision:
    commands = ("echo one > one.txt", "sleep 1")
    if view.turn < len(commands):
        return calls("shell", command=commands[view.turn])
    return Decision(submit={"done": True})


@pytest.mark.parametrize(
    ("policy", "task", "end"),
    [
        (honest, tally_task(), End.SUBMITTED),
        (gives_up, tally_task(), End.GAVE_UP),
        (fails, tally_task(), End.POLICY_ERROR),
        (repeats, tally_task(), End.STALLED),
        (repeats, tally_task(limits=Limits(turns=3)), End.BUDGET_EXHAUSTED),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
async def test_an_end_of_its_own(
    client: Client, tmp_path: Path, policy: Callable[[View], Decision], task: Task, end: End
) -> None:
    async with arena(client, {"policy": policy}, tmp_path) as place, place.worker():
        original = await place.run(task, "policy")
        spec = await place.records.spec(original.episode_id)
        assert spec is not None
        asked = place.policies.acted[original.episode_id]
        verdict, result = await replayed(place, spec)
        same(verdict)
        assert (original.end, result.end, result.reason) == (end, end, original.reason)
        assert result.digests.trace == original.digests.trace
        assert sum(place.policies.acted.values()) == asked, "no policy is asked again"


async def test_slices_of_one_turn_and_runs_that_continue_change_nothing(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "honest")
        await (await place.start(spec)).result()
        same((await replayed(place, spec, QUICK.model_copy(update={"slice_turns": 1, "slices_per_run": 1})))[0])


async def test_cancelled_and_terminated_episodes_are_not_given_time_to_settle(
    client: Client, tmp_path: Path
) -> None:
    """A job is pending when they end; a replay that settled would have it run."""
    settles = tally_task(settle=Settle(limit_s=7200))
    for end in (End.CANCELLED, End.TERMINATED):
        async with arena(client, {"lingering": lingering}, tmp_path) as place, place.worker():
            spec = await place.plan(settles, "lingering")
            handle = await place.start(spec)
            await until(lambda place=place, spec=spec: place.policies.acted.get(spec.episode_id, 0) >= 2)
            if end is End.TERMINATED:
                await handle.terminate("enough")
                await place.clean_up()
            else:
                await place.ground.stop(spec.episode_id, "enough")
                await handle.result()
            assert (await place.outcome(spec)).end is end
            verdict, result = await replayed(place, spec)
            same(verdict)
            assert (result.end, result.drain.jobs_cancelled) == (end, 1)


async def test_a_cancellation_leaves_the_open_turn_out(client: Client, tmp_path: Path) -> None:
    """It is cancelled in a command, of which nobody knows what it did."""
    async with arena(client, {"sleeper": sleeper}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(), "sleeper")
        handle = await place.start(spec)
        await until(lambda: any(op.endswith("/1/0") for op in place.sandboxes.executions))
        await place.ground.stop(spec.episode_id, "enough")
        await handle.result()
        verdict, _ = await replayed(place, spec, strict=True)
        told = (OPEN.format("cancelled"), "what turn 1 changed, the deferred jobs and the files after it")
        same(verdict, *told, UNGRADED)


async def test_an_environment_error_is_replayed_up_to_it(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"sleeper": sleeper}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(on_loss="environment_error"), "sleeper")
        handle = await place.start(spec)
        await until(lambda: any(op.endswith("/1/0") for op in place.sandboxes.executions))
        place.sandboxes.lose(spec.episode_id)
        await handle.result()
        verdict, result = await replayed(place, spec, strict=True)
        assert not verdict.diverged
        assert OPEN.format("environment_error") in verdict.not_compared
        assert "the files: the original's sandbox was lost with them" in verdict.not_compared
        assert result.end is End.ENVIRONMENT_ERROR


async def test_a_sandbox_that_was_lost_and_made_anew_is_the_cause_of_what_differs(
    client: Client, tmp_path: Path
) -> None:
    """The replay loses none: the command that was in flight then runs now."""
    async with arena(client, {"naps": naps}, tmp_path) as place, place.worker():
        spec = await place.plan(box_task(), "naps")
        handle = await place.start(spec)
        await until(lambda: any(op.endswith("/1/0") for op in place.sandboxes.executions))
        place.sandboxes.lose(spec.episode_id)
        await handle.result()
        verdict, _ = await replayed(place, spec)
        assert (verdict.turn, verdict.what, verdict.cause) == (1, "observation", "environment_changed")
        assert ("sandbox.lost", "1", "none") in [(one.what, one.left, one.right) for one in verdict.differs]


async def test_waits_in_real_time_take_none(client: Client, tmp_path: Path) -> None:
    """The original would wait for three days: a replay that did would not end here."""
    async with arena(client, {"patient": patient}, tmp_path) as place, place.worker():
        simulated = await place.plan(tally_task(), "patient")
        await (await place.start(simulated)).result()
        replaying = Replaying(place.records, place.objects)
        original = await replaying.original(simulated.episode_id)
        waits = tally_task(waiting="real", limits=Limits(wall_s=10 * DAY))
        planned = await replaying.plan(original, new_episode_id(), task=waits)
        await place.records.plan([planned])
        handle = await place.start(planned)
        await handle.result()
        described = await handle.describe()
        assert described.close_time is not None
        assert described.close_time - described.start_time < timedelta(minutes=5)
        verdict = await replaying.verdict(original, await place.outcome(planned))
        assert not verdict.diverged
        assert [one.what for one in verdict.differs][:2] == ["limits.wall_s", "waiting"]


async def test_an_answer_is_given_at_once_whatever_the_task_knows(client: Client, tmp_path: Path) -> None:
    def asks(view: View) -> Decision:
        return Decision(give_up="thanks") if view.turn else Decision(ask="May I?")

    async with arena(client, {"asks": asks}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "asks")
        handle = await place.start(spec)
        await until(lambda: _asks(place, spec))
        await place.ground.answer(spec.episode_id, "you may")
        await handle.result()
        verdict, result = await replayed(place, spec)
        same(verdict)
        trace = unpack(await place.objects.get(result.trace))
        assert [one.content for one in trace.evidence.turns[0].observations or ()] == ["you may"]


async def _asks(place: Arena, spec: EpisodeSpec) -> bool:
    return (await place.ground.status(spec.episode_id)).phase == "question"


async def test_an_episode_that_goes_on_is_not_replayed(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"lingering": lingering}, tmp_path) as place, place.worker():
        spec, handle = await started(place)
        with pytest.raises(Exception, match="has not ended"):
            await Replaying(place.records, place.objects).original(spec.episode_id)
        await place.ground.stop(spec.episode_id)
        await handle.result()


@pytest.mark.parametrize("lost", ["recording", "template"])
async def test_what_is_missing_when_a_replay_runs_is_its_cause(client: Client, tmp_path: Path, lost: str) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "honest")
        await (await place.start(spec)).result()
        replaying = Replaying(place.records, place.objects)
        original = await replaying.original(spec.episode_id)
        task = tally_task(template={"name": "gone"}) if lost == "template" else None
        planned = await replaying.plan(original, new_episode_id(), task=task)
        if lost == "recording":
            del place.objects.contents[planned.policy.digest]
        await place.records.plan([planned])
        await (await place.start(planned)).result()
        verdict = await replaying.verdict(original, await place.outcome(planned))
        assert (verdict.diverged, verdict.what, verdict.cause) == (True, "input", "missing_input")
        assert ("recording" if lost == "recording" else "template") in str(verdict.right)


@pytest.mark.parametrize("part", ["trace", "task"])
async def test_what_an_episode_is_made_again_from_is_named_where_it_is_gone(
    client: Client, tmp_path: Path, part: str
) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        spec = await place.plan(tally_task(), "honest")
        await (await place.start(spec)).result()
        name = (await place.outcome(spec)).trace if part == "trace" else spec.task_digest
        for damaged in (b"other bytes", None):
            place.objects.contents.pop(name)
            if damaged is not None:
                place.objects.contents[name] = damaged
            with pytest.raises(InputMissing, match=f"the {part} {name}"):
                await Replaying(place.records, place.objects).original(spec.episode_id)
