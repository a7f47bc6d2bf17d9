"""Several hosts in one arena: each with sandboxes and a worker of its own, which may vanish and come back."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from schemas.sandbox import SandboxOrder, SandboxRef
from tests.workflow.arena import QUICK, Arena, lease_request
from tiltyard.testing.memory_box import MemoryBox
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from workers.assembly import Parts, at_work

HURRIED = QUICK.model_copy(update={"slice_turns": 1, "start_s": 0.5, "outage_s": 2})
"""A host that does not take up work is looked at after half a second, and lost after two without a sign of life."""


class CountedSandboxes(MemorySandboxes):
    """``most`` were there at once; ``asked`` are the names that were ordered, and ``made`` those that were made."""

    def __init__(self, slots: int = 1000) -> None:
        super().__init__(slots)
        self.most, self.asked, self.made = 0, set[str](), list[str]()

    async def provision(self, order: SandboxOrder) -> SandboxRef:
        self.asked.add(order.name)
        return await super().provision(order)

    def _made(self, order: SandboxOrder) -> MemoryBox:
        box = super()._made(order)
        self.made.append(order.name)
        self.most = max(self.most, len(self._boxes))
        return box


@asynccontextmanager
async def host(
    place: Arena, name: str, sandboxes: MemorySandboxes, changed: Callable[[Parts], Parts] = lambda parts: parts
) -> AsyncIterator[None]:
    """A worker of the host ``name``. At its end it vanishes without grace, and its sandboxes with nobody to ask."""
    client = await Client.connect(
        place.client.service_client.config.target_host, data_converter=pydantic_data_converter
    )
    settings = place.settings.model_copy(update={"host_name": name, "tuning": HURRIED})
    parts = changed(replace(place.parts, sandboxes=sandboxes))
    async with at_work(client, parts, settings, grace=timedelta()):
        yield


def exam(place: Arena) -> SandboxOrder:
    """An order of an examination, which takes a slot and belongs to no episode of the arena."""
    owner = lease_request("other", cluster=place.settings.cluster).owner
    return SandboxOrder(driver="bubblewrap", name="exam", incarnation=1, owner=owner, episode_id="other")
