"""Playing trials on the ground: so many at once, with progress, and with Ctrl-C."""

import asyncio
import itertools
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ops.cli.output import Output
from ops.cli.progress import Progress, progress
from ops.cli.results import show_results
from ops.cli.session import ground
from schemas.episode import EpisodeResult, EpisodeSpec, PolicySpec
from schemas.task import Task
from tiltyard.errors import BadInput
from workers.ground import Ground

POLL_S = 0.3


@dataclass(frozen=True)
class Order:
    """What to play: every task at every seed, ``jobs`` at once. ``detach`` does not wait for the ends."""

    tasks: Sequence[Task]
    policy: PolicySpec
    seeds: Sequence[int]
    jobs: int
    detach: bool = False


async def play(home: Path | None, order: Order, out: Output) -> tuple[EpisodeResult, ...]:
    """Play and print. Raises ``KeyboardInterrupt`` when Ctrl-C ended it early."""
    async with ground(home, out.note) as opened:
        specs = [
            await opened.plan(task, order.policy, seed)
            for task, seed in itertools.product(order.tasks, order.seeds)
        ]
        if order.detach:
            await opened.submit(specs)
            _say_started(specs, out)
            return ()
        with progress(out, len(specs)) as shown:
            batch = Batch(opened, out, shown)
            try:
                results = await _with_ctrl_c(batch, specs, order.jobs)
            except BrokenPipeError:
                await _leave_unread(batch, len(specs))
                raise
        show_results(out, results)
        return results


def _say_started(specs: Sequence[EpisodeSpec], out: Output) -> None:
    for spec in specs:
        out.value(
            {"episode_id": spec.episode_id, "task": spec.task_id, "policy": spec.policy.target, "seed": spec.seed}
        )
        out.show(f"{spec.episode_id}  {spec.task_id}")
    out.note(f"started {len(specs)}; to follow one: tiltyard episodes watch {specs[0].episode_id}")


class Batch:
    """Trials under way: which ones run, and what has come of the others."""

    def __init__(self, ground: Ground, out: Output, shown: Progress) -> None:
        self._ground, self._out, self._shown = ground, out, shown
        self.running: dict[str, EpisodeSpec] = {}
        self.begun = 0

    async def play(self, specs: Sequence[EpisodeSpec], jobs: int) -> tuple[EpisodeResult, ...]:
        """Play all, ``jobs`` at once; their results in the same order. Each is printed as JSON when it ends.

        Starts no more when one cannot be played or printed; those that run go on.
        """
        slots = asyncio.Semaphore(jobs)
        looking = asyncio.create_task(self._look())
        trials = [asyncio.create_task(self._trial(spec, slots)) for spec in specs]
        try:
            return tuple(await asyncio.gather(*trials))
        finally:
            for task in (looking, *trials):
                task.cancel()

    async def _trial(self, spec: EpisodeSpec, slots: asyncio.Semaphore) -> EpisodeResult:
        async with slots:
            self.begun += 1
            self.running[spec.episode_id] = spec
            await self._ground.submit([spec])
            self._shown.started(spec)
            result = await self._ground.result(spec.episode_id)
            del self.running[spec.episode_id]
            self._shown.ended(result)
            self._out.value(result)
            return result

    async def _look(self) -> None:
        """Follow the running episodes where somebody watches a terminal."""
        while self._shown.live:
            for episode_id in tuple(self.running):
                with suppress(Exception):  # only a display: no outcome passes here
                    self._shown.status(await self._ground.status(episode_id))
            await asyncio.sleep(POLL_S)

    async def begin(self, spec: EpisodeSpec) -> None:
        """Have an episode begun whose start may have been cut short."""
        await self._ground.submit([spec])

    async def pause(self, spec: EpisodeSpec) -> None:
        """Pause an episode and wait until it holds, or has ended by itself."""
        await self.begin(spec)
        with suppress(BadInput):  # it has ended meanwhile
            await self._ground.pause(spec.episode_id)
        while True:
            status = await self._ground.status(spec.episode_id)
            if status.phase in ("paused", "done"):
                return
            await asyncio.sleep(POLL_S)

    async def resume(self, spec: EpisodeSpec) -> None:
        """Let an episode go on, if it holds."""
        with suppress(BadInput):
            await self._ground.resume(spec.episode_id)

    def note(self, text: str) -> None:
        self._out.note(text)


async def _leave_unread(batch: Batch, total: int) -> None:
    """Nobody reads the results: what runs goes on, nothing more is started, and both are said."""
    running = tuple(batch.running.values())
    for spec in running:
        await batch.begin(spec)
    batch.note(f"nobody reads the results any more: {total - batch.begun} of {total} trials were not started")
    for spec in running:
        batch.note(f"tiltyard episodes watch {spec.episode_id}")


class Interrupts:
    """Counts Ctrl-C: ``pause`` is set by the first one, ``detach`` by the second."""

    def __init__(self) -> None:
        self.pause, self.detach = asyncio.Event(), asyncio.Event()

    def hit(self) -> None:
        (self.detach if self.pause.is_set() else self.pause).set()


@contextmanager
def _ctrl_c() -> Iterator[Interrupts]:
    loop, interrupts = asyncio.get_running_loop(), Interrupts()
    loop.add_signal_handler(signal.SIGINT, interrupts.hit)
    try:
        yield interrupts
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _with_ctrl_c(batch: Batch, specs: Sequence[EpisodeSpec], jobs: int) -> tuple[EpisodeResult, ...]:
    with _ctrl_c() as interrupts:
        playing = asyncio.create_task(batch.play(specs, jobs))
        interrupted = asyncio.create_task(interrupts.pause.wait())
        try:
            await asyncio.wait((playing, interrupted), return_when=asyncio.FIRST_COMPLETED)
            if playing.done():
                return await playing
            running = tuple(batch.running.values())
        finally:
            interrupted.cancel()
            playing.cancel()
        await asyncio.wait((playing,))
        await _leave(batch, running, interrupts)
        raise KeyboardInterrupt


async def _leave(batch: Batch, running: Sequence[EpisodeSpec], interrupts: Interrupts) -> None:
    """First Ctrl-C: pause what runs. Second one: let it all go on. Either way say how to come back."""
    batch.note("pausing at the turn boundary; Ctrl-C again leaves the episodes running")
    pausing = asyncio.gather(*map(batch.pause, running))
    detached = asyncio.create_task(interrupts.detach.wait())
    await asyncio.wait((pausing, detached), return_when=asyncio.FIRST_COMPLETED)
    detached.cancel()
    command = "resume"
    if interrupts.detach.is_set():
        pausing.cancel()
        await asyncio.gather(*map(batch.resume, running))
        command = "watch"
    for spec in running:
        batch.note(f"tiltyard episodes {command} {spec.episode_id}")
