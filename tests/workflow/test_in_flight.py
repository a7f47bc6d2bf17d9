"""Calls in flight at the seal: committed, absent or unknown, and never guessed (I2)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from schemas.journal import Writer
from schemas.world import Facts
from tests.workflow.arena import arena, cause_of, honest, lease_request, lingering, started, tally_task
from tiltyard.errors import JournalClosed
from tiltyard.ports import World
from tiltyard.trace import unpack


async def test_nothing_is_journalled_after_the_end(client: Client, tmp_path: Path) -> None:
    async with arena(client, {"lingering": lingering}, tmp_path) as place, place.worker():
        spec, handle = await started(place)
        (lease,) = place.engine.leases()
        await handle.cancel()
        await cause_of(handle)
        with pytest.raises(JournalClosed):
            await place.journal.take(
                spec.episode_id, lease.generation, Writer(run_id="late", slice_no=99, attempt_id="late")
            )


@pytest.mark.parametrize(("gate", "reading"), [("call", "absent"), ("answering", "committed")])
async def test_a_call_in_flight_at_the_seal_is_read_as_what_it_was(
    client: Client, tmp_path: Path, gate: str, reading: str
) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        place.world.gates[gate].shut()
        spec = await place.plan(tally_task(), "honest")
        handle = await place.start(spec)
        await place.world.gates[gate].reached.wait()
        await handle.cancel()
        await cause_of(handle)
        evidence = unpack(await place.objects.get((await place.outcome(spec)).trace)).evidence
        assert list(evidence.in_flight.values()) == [reading]
        assert (len(evidence.facts.changes) == 1) == (reading == "committed")


async def test_an_unknown_outcome_quarantines_the_namespace(client: Client, tmp_path: Path) -> None:
    """A world whose record of the call in flight says neither yes nor no."""
    async with arena(client, {"honest": honest}, tmp_path) as place:
        undecided = Undecided(place.world)
        parts = replace(place.parts, world=undecided)
        async with place.worker(parts=parts):
            place.world.gates["answering"].shut()
            spec = await place.plan(tally_task(), "honest")
            handle = await place.start(spec)
            await place.world.gates["answering"].reached.wait()
            (lease,) = place.engine.leases()
            await handle.cancel()
            await cause_of(handle)
        evidence = unpack(await place.objects.get((await place.outcome(spec)).trace)).evidence
        assert list(evidence.in_flight.values()) == ["unknown"]
        assert place.engine.lease(lease_request("next")).namespace != lease.namespace


class Undecided:
    """A world that answers like another one, and does not tell how its last delivery ended."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    async def facts(self, namespace: str, generation: int, collections: Sequence[str]) -> Facts:
        facts = await self._world.facts(namespace, generation, collections)
        *others, last = facts.deliveries
        return facts.model_copy(update={"deliveries": (*others, last.model_copy(update={"reply": None}))})
