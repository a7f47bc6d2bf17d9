"""How a command gets at the ground, and what happens to it when the stack ends meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from infra.local.stack import bring_up, stay_up
from ops.cli.on_demand import stack_config
from workers.bootstrap.ground import open_ground
from workers.ground import Ground
from workers.settings import Settings

LOOK_S = 2.0
"""Between two looks at the stack while a command uses it."""


@asynccontextmanager
async def ground(home: Path | None, say: Callable[[str], None]) -> AsyncIterator[Ground]:
    """The ground on the stack of a data folder. The block ends with ``StackFailed`` when the stack ends."""
    settings = Settings.from_environment(home)
    config = stack_config(settings)
    address = (await asyncio.to_thread(bring_up, config, say)).address
    reachable = settings.model_copy(update={"temporal_address": address})
    async with while_it_holds(partial(stay_up, config, address, say)), open_ground(reachable) as opened:
        yield opened


@asynccontextmanager
async def while_it_holds(look: Callable[[], None], every_s: float = LOOK_S) -> AsyncIterator[None]:
    """Call ``look`` again and again, in a thread, beside the block; what it raises ends the block at once."""
    block = asyncio.current_task()
    assert block is not None

    def end_block(looking: "asyncio.Task[None]") -> None:
        if not looking.cancelled():
            block.cancel()

    looking = asyncio.create_task(_look_on(look, every_s))
    looking.add_done_callback(end_block)
    try:
        yield
        await asyncio.sleep(0)  # an end that was asked for in the last moment arrives here, not at the caller
    except asyncio.CancelledError:
        if looking.done() and not looking.cancelled() and block.uncancel() == 0:
            looking.result()
        raise
    finally:
        looking.remove_done_callback(end_block)
        looking.cancel()


async def _look_on(look: Callable[[], None], every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        await asyncio.to_thread(look)
