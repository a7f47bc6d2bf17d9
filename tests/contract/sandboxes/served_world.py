"""A tally world that is served to programs in sandboxes, and short ways to have them call it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from infra.sandboxes.inside import Worlds
from schemas.sandbox import SandboxRef, WorldAccess
from schemas.world import Facts, Lease
from tiltyard.episode.delivery import Reconciler
from tiltyard.ports import Sandboxes, World
from tiltyard.sandbox.service import WorldService
from tiltyard.testing.engine_bench import lease_request
from tiltyard.testing.gated_world import GatedWorld
from tiltyard.testing.sandbox_bench import Box, SandboxBench

EXPOSES = {"tally": ("add", "read"), "looks": ("read",)}

CALLING = """
import json, urllib.error, urllib.request

def call(tool, **arguments):
    body = json.dumps(arguments).encode() if tool else None
    try:
        answer = urllib.request.urlopen("http://tally.world/" + tool, body)
    except urllib.error.HTTPError as refused:
        answer = refused
    return answer.status, json.loads(answer.read())

"""
"""What programs that call begin with."""


@dataclass
class ServedWorld:
    """One lease of a world. ``world`` is gated, so that replies can be lost; ``worlds`` is for a host."""

    world: GatedWorld
    lease: Lease
    patience_s: float = 60

    @property
    def worlds(self) -> Worlds:
        service = WorldService(self.world, Reconciler(self.world, timedelta(seconds=0.2)))

        async def served() -> WorldService:
            return service

        return Worlds(served, timedelta(seconds=self.patience_s))

    async def connect(self, sandboxes: Sandboxes, ref: SandboxRef) -> None:
        """As a slice does before its first turn."""
        access = WorldAccess(world="tally", namespace=self.lease.namespace, generation=self.lease.generation)
        await self.world.admit(access.namespace, access.generation, ref.incarnation)
        await sandboxes.connect(ref, access)

    @asynccontextmanager
    async def sandbox(self, bench: SandboxBench, **fields: Any) -> AsyncIterator[Box]:
        """A sandbox whose programs reach it."""
        async with bench.sandbox(exposes=EXPOSES, **fields) as box:
            await self.connect(bench.port, box.ref)
            yield box

    async def facts(self) -> Facts:
        await self.world.seal(self.lease.namespace, self.lease.generation)
        return await self.world.facts(self.lease.namespace, self.lease.generation, [])


async def serve(world: World, episode: str = "ep") -> ServedWorld:
    """A lease of a world of which everything that is exposed may be called."""
    request = lease_request(episode, inside_tools=EXPOSES["tally"])
    return ServedWorld(GatedWorld(world), await world.lease(request))


async def said(box: Box, source: str, op_id: str, timeout_s: float = 30) -> Any:
    """What a program prints as JSON that calls the world."""
    await box.put("calling.py", (CALLING + source).encode())
    ended = await box.sh("python3 calling.py", op_id=op_id, timeout_s=timeout_s)
    assert ended.exit_code == 0, ended
    return json.loads(ended.stdout.text)
