"""Trials under way on the ground: so many at once, followed while they run."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from ops.cli.output import Output
from ops.cli.progress import Progress
from ops.cli.watching import HELD, status_line
from schemas.episode import EpisodeResult, EpisodeSpec
from schemas.status import EpisodeStatus
from tiltyard.errors import BadInput
from workers.ground import Ground

POLL_S = 0.3
UNSEEN_POLL_S = 1.0
"""Between looks where no terminal shows each turn: only what needs a person matters then."""

LASTING = 3
"""From this attempt on a step that is tried again is told of."""


class Batch:
    """Trials under way: which ones were begun, which ones run, and what has come of the others.

    ``tell`` is told each result as it ends; by default it is printed as JSON.
    """

    def __init__(
        self,
        ground: Ground,
        out: Output,
        shown: Progress,
        tell: Callable[[EpisodeResult], object] | None = None,
    ) -> None:
        self._ground, self._out, self._shown = ground, out, shown
        self._tell = tell or out.value
        self._told: set[tuple[str, str, int]] = set()
        self._failing: set[tuple[str, str, str]] = set()
        self.running: dict[str, EpisodeSpec] = {}
        self.begun: set[str] = set()
        self._results: dict[str, EpisodeResult] = {}

    def done(self, specs: Sequence[EpisodeSpec]) -> tuple[EpisodeResult, ...]:
        """The results of those that have ended, in this order."""
        return tuple(self._results[one.episode_id] for one in specs if one.episode_id in self._results)

    async def play(self, specs: Sequence[EpisodeSpec], jobs: int) -> tuple[EpisodeResult, ...]:
        """Play all, ``jobs`` at once, begun in order; their results in the same order. Each is told when it ends.

        Starts no more when one cannot be played or printed; those that run go on.
        """
        slots = asyncio.Semaphore(jobs)
        looking = asyncio.create_task(self._look())
        trials = [asyncio.create_task(self._trial(spec, slots)) for spec in specs]
        try:
            await asyncio.gather(*trials)
            return self.done(specs)
        finally:
            for task in (looking, *trials):
                task.cancel()

    async def _trial(self, spec: EpisodeSpec, slots: asyncio.Semaphore) -> None:
        async with slots:
            self.begun.add(spec.episode_id)
            self.running[spec.episode_id] = spec
            await self._ground.submit([spec])
            self._shown.started(spec)
            self._ended(await self._ground.result(spec.episode_id))

    def _ended(self, result: EpisodeResult) -> None:
        self.running.pop(result.episode_id, None)
        self._results[result.episode_id] = result
        self._shown.ended(result)
        self._tell(result)

    async def collect(self, spec: EpisodeSpec) -> None:
        """Take the result of a trial that has ended while it was left. That nobody reads it changes nothing."""
        with suppress(BrokenPipeError):
            self._ended(await self._ground.result(spec.episode_id))

    async def _look(self) -> None:
        """Follow the running episodes: a person may have to answer one."""
        while True:
            await asyncio.sleep(POLL_S if self._shown.live else UNSEEN_POLL_S)
            for episode_id in tuple(self.running):
                with suppress(Exception):  # only a display: no outcome passes here
                    status = await self._ground.status(episode_id)
                    self._shown.status(status)
                    self._tell_question(status)
                    self._tell_failing(status)

    def _tell_question(self, status: EpisodeStatus) -> None:
        question = (status.episode_id, status.question, status.slices)
        if status.question and question not in self._told:
            self._told.add(question)
            self.note(status_line(status))

    def _tell_failing(self, status: EpisodeStatus) -> None:
        """Once for each reason; what fails once or twice heals by itself as a rule."""
        reasons = {(status.episode_id, one.step, one.why) for one in status.failing if one.attempt >= LASTING}
        if reasons - self._failing:
            self._failing |= reasons
            self.note(status_line(status))

    async def begin(self, spec: EpisodeSpec) -> None:
        """Have an episode begun whose start may have been cut short."""
        await self._ground.submit([spec])

    async def pause(self, spec: EpisodeSpec) -> EpisodeStatus:
        """Pause an episode and wait until it holds, or has ended by itself."""
        await self.begin(spec)
        with suppress(BadInput):  # it has ended meanwhile
            await self._ground.pause(spec.episode_id)
        while True:
            status = await self._ground.status(spec.episode_id)
            if status.phase in (*HELD, "done"):
                return status
            await asyncio.sleep(POLL_S)

    async def resume(self, spec: EpisodeSpec) -> None:
        """Let an episode go on, if it holds."""
        with suppress(BadInput):
            await self._ground.resume(spec.episode_id)

    def stop_showing(self) -> None:
        """The display ends here: answers follow."""
        self._shown.stop()

    def note(self, text: str) -> None:
        if text:
            self._out.note(text)
