"""A whole stack of its own for a subject: embedded, in a temporary data folder, ended with the subject."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import psutil

from infra.local.stack import Say, bring_up, look, take_down
from infra.local.state import ProcessState
from infra.sandboxes.client import HostClient
from ops.cli.called import call_on
from ops.cli.on_demand import stack_config
from schemas.episode import EpisodeResult, PolicySpec
from schemas.sandbox import DriverName
from schemas.task import Task
from tiltyard.errors import StackFailed
from workers.bootstrap.ground import open_ground
from workers.ground import DEFAULT_DRIVER, Ground
from workers.settings import Settings

NOTHING_SET: Mapping[str, str] = MappingProxyType({})

AT_ONCE = 8
"""Episodes at once, where a subject does not say otherwise."""


@dataclass(frozen=True)
class Stack:
    """A running stack, and the ground on it."""

    settings: Settings
    ground: Ground

    def processes(self) -> tuple[ProcessState, ...]:
        """The stack's processes but for the one that watches them. Raises ``StackFailed`` when it has ended."""
        state = look(stack_config(self.settings).paths)
        if state is None:
            raise StackFailed("the benchmark's stack has ended")
        return state.processes

    def process(self, name: str) -> psutil.Process:
        """One of them by its name."""
        found = {one.name: one.process for one in self.processes()}.get(name)
        if found is None:
            raise StackFailed(f"the benchmark's stack has no process {name}")
        return psutil.Process(found.pid)

    async def unavailable(self, driver: DriverName) -> str:
        """Why the driver makes no sandboxes here; empty when it does."""
        async with HostClient(self.settings.sandboxes_socket) as sandboxes:
            offer = await sandboxes.offer(driver)
        return "" if offer.available else f"{offer.problem}; {offer.fix}"

    async def episode(self, task: Task, driver: DriverName = DEFAULT_DRIVER) -> EpisodeResult:
        """Run the task with its reference; the outcome. ``driver`` makes its sandbox, if it needs one."""
        spec = await self.ground.plan(task, PolicySpec(target="reference"), seed=0, sandbox=driver)
        await self.ground.submit([spec])
        return await self.ground.result(spec.episode_id)

    async def episodes(
        self,
        task: Task,
        count: int,
        ended: Callable[[], None] = lambda: None,
        driver: DriverName = DEFAULT_DRIVER,
    ) -> list[EpisodeResult]:
        """Run so many, ``AT_ONCE`` of them at once; ``ended`` is called after each."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one() -> EpisodeResult:
            async with gate:
                result = await self.episode(task, driver)
            ended()
            return result

        running = [asyncio.create_task(one()) for _ in range(count)]
        try:
            return list(await asyncio.gather(*running))
        finally:  # one that fails does not leave the others at work in a folder that is removed
            for episode in running:
                episode.cancel()
            await asyncio.gather(*running, return_exceptions=True)


@asynccontextmanager
async def stack(say: Say, environment: Mapping[str, str] = NOTHING_SET) -> AsyncIterator[Stack]:
    """Bring it up, with these settings and none of the caller's. However the block is left, nothing of it stays."""
    with TemporaryDirectory(prefix="tiltyard-bench-") as folder:
        settings = Settings.from_environment(Path(folder), environment=environment)
        config = stack_config(settings)
        call_on(config.home)  # a command that is printed is meant for this stack, and never for the user's own
        try:
            state = bring_up(config, say, pinned=True)
            settings = settings.model_copy(update={"temporal_address": state.address})
            async with open_ground(settings) as ground:
                yield Stack(settings, ground)
        finally:
            take_down(config.paths, say)
