"""The client of the world server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from infra.rpc.client import WorldClient
from tiltyard.ports import World
from tiltyard.testing.lossy_world import LossyWorld, Rates
from workers.settings import Settings


@asynccontextmanager
async def open_world_client(settings: Settings) -> AsyncIterator[World]:
    """The world server, through a bad network where the settings ask for one."""
    async with WorldClient(settings.world_socket) as world:
        if settings.lossy is None:
            yield world
            return
        rate = settings.lossy.rate
        rates = Rates(rate, rate, rate, rate, rate)
        lossy = LossyWorld(world, Random(settings.lossy.seed), rates)  # noqa: S311 dice, not a secret
        try:
            yield lossy
        finally:
            await lossy.aclose()
