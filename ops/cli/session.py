"""How a command gets at the ground."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ops.cli.on_demand import on_stack
from workers.bootstrap import open_ground
from workers.ground import Ground
from workers.settings import Settings


@asynccontextmanager
async def ground(home: Path | None, say: Callable[[str], None]) -> AsyncIterator[Ground]:
    """The ground on the embedded stack of a data folder."""
    settings = await asyncio.to_thread(on_stack, Settings.from_environment(home), say)
    async with open_ground(settings) as opened:
        yield opened
