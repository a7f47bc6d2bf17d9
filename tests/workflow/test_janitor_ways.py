"""Each way in which a workflow can leave its episode: the janitor records an outcome, and nothing is left (I5).

The episode has a sandbox with a process in the background, a deferred job, and an open policy.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from schemas.decision import Call, Decision
from schemas.episode import End, EpisodeSpec, Validity
from schemas.view import View
from tests.workflow.arena import QUICK, Arena, Handle, arena, until
from tests.workflow.boxes import assert_no_sandbox, box_task, evidence_of
from tests.workflow.broken_episodes import OtherEpisode, StuckEpisode
from tests.workflow.versioned import SOON, code, worker


def busy(view: View) -> Decision:
    """Leaves a job and a process behind, and then asks, which nobody answers; or ends."""
    if view.turn == 0:
        later = Call(tool="add_later", arguments={"name": "apples", "after_s": 3600})
        return Decision(
            calls=(later, Call(tool="shell", arguments={"command": "echo one > one.txt; sleep 1000 &"}))
        )
    return Decision(ask="May I?") if view.turn == 1 else Decision(submit={"done": True})


@dataclass
class Left:
    """An episode in the middle of its turns, and who works on it."""

    place: Arena
    spec: EpisodeSpec
    handle: Handle

    async def task_fails(self) -> None:
        await until(self._fails)

    async def _fails(self) -> bool:
        return (await self.handle.describe()).raw_description.pending_workflow_task.attempt >= 2

    async def timed_out(self) -> bool:
        return (await self.handle.describe()).status is WorkflowExecutionStatus.TIMED_OUT

    async def swept(self, reason: str, **order: float) -> None:
        """Passes until it has been taken back; nothing of it is left, and the outcome says why."""
        summary = await self.place.clean_up(**order)  # type: ignore[arg-type]  # a table of limits
        while self.spec.episode_id not in summary.reclaimed:
            summary = await self.place.clean_up(**order)  # type: ignore[arg-type]
        await until(self._no_sandbox)
        result = await self.place.outcome(self.spec)
        assert (result.end, result.validity) == (End.TERMINATED, Validity.MISSING)
        assert reason in result.reason
        assert (result.drain.jobs_found, result.drain.jobs_cancelled) == (1, 1)
        sandbox = (await evidence_of(self.place, self.spec)).sandbox
        assert sandbox is not None
        assert [one.path for one in sandbox.changes] == ["one.txt"]
        await self.place.assert_nothing_left(self.spec)
        await assert_no_sandbox(self.place)
        assert (await self.handle.describe()).status is not WorkflowExecutionStatus.RUNNING

    async def _no_sandbox(self) -> bool:
        return not await self.place.sandboxes.sandboxes()


async def begun(place: Arena, timeout: timedelta | None = None) -> Left:
    spec = await place.plan(box_task(), "busy")
    handle = await place.start(spec, QUICK, timeout)

    async def asks() -> bool:
        return bool((await place.ground.status(spec.episode_id)).question)

    await until(asks)
    return Left(place, spec, handle)


async def terminated(place: Arena) -> None:
    async with place.worker():
        left = await begun(place)
        await left.handle.terminate(reason="by hand")
        await left.swept("the workflow was terminated: by hand")


async def terminated_while_closing(place: Arena) -> None:
    async with place.worker():
        left = await begun(place)
        gate = place.world.gates["drain"]
        gate.shut()
        await place.ground.answer(left.spec.episode_id, "yes")
        await gate.reached.wait()
        await left.handle.terminate()
        gate.open()
        await left.swept("the workflow was terminated")


async def terminated_with_its_worker(place: Arena) -> None:
    """Nobody was there when it was terminated."""
    async with place.worker():
        left = await begun(place)
    await left.handle.terminate()
    async with place.worker():
        await left.swept("the workflow was terminated")


async def timed_out(place: Arena) -> None:
    async with place.worker():
        left = await begun(place, timeout=timedelta(seconds=4))
        await until(left.timed_out)
        await left.swept("the workflow timed out")


async def stuck(place: Arena) -> None:
    """Its task fails with an error that is no failure of the workflow."""
    async with place.worker(code(StuckEpisode)):
        left = await begun(place)
        await place.ground.answer(left.spec.episode_id, "yes")
        await left.task_fails()
        await left.swept("its task failed", stuck_attempts=2)


async def nondeterministic(place: Arena) -> None:
    async with place.worker():
        left = await begun(place)
    async with place.worker(code(OtherEpisode)):
        await left.handle.signal("wake")
        await left.task_fails()
        await left.swept("its task failed", stuck_attempts=2)


async def without_a_worker_of_its_version(place: Arena) -> None:
    async with worker(place, "old"):
        left = await begun(place)
    async with worker(place, "new", code(OtherEpisode), gone=SOON):
        await left.swept("no worker has the version old", stranded_s=0)


WAYS: tuple[Callable[[Arena], Awaitable[None]], ...] = (
    terminated,
    terminated_while_closing,
    terminated_with_its_worker,
    timed_out,
    stuck,
    nondeterministic,
    without_a_worker_of_its_version,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_an_episode_is_taken_back(
    client: Client, tmp_path: Path, way: Callable[[Arena], Awaitable[None]]
) -> None:
    async with arena(client, {"busy": busy}, tmp_path) as place:
        await way(place)


async def test_without_the_janitor_all_of_it_stays(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"busy": busy}, tmp_path) as place, place.worker():
        left = await begun(place)
        await left.handle.terminate()
        assert await place.records.result(left.spec.episode_id) is None
        assert len(place.engine.leases()) == len(await place.sandboxes.sandboxes()) == 1
