"""Workers with versions: processes of their own, as far as the server can tell."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from tests.workflow.arena import Arena
from workers.assembly import WORKFLOWS, at_work
from workers.versions import GONE

SOON = timedelta(seconds=1)
"""When a worker that is away is gone, where a test waits for that."""


def code(episode: type) -> tuple[type, ...]:
    return (episode, *WORKFLOWS[1:])


@asynccontextmanager
async def worker(
    place: Arena, build: str, workflows: tuple[type, ...] = WORKFLOWS, gone: timedelta = GONE
) -> AsyncIterator[None]:
    """A worker process of its own with this version, which vanishes without grace; as old ones do when they are
    ``gone`` for so long."""
    address = place.client.service_client.config.target_host
    client = await Client.connect(address, data_converter=pydantic_data_converter)
    async with at_work(
        client, place.parts, place.settings, workflows=workflows, grace=timedelta(), build=build, gone=gone
    ):
        yield
