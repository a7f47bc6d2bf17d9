"""Forks of an episode whose trace is gone or damaged: refused at once, and never tried for hours."""

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client

from schemas.episode import End
from tests.workflow.arena import QUICK, Arena, arena, honest, tally_task
from tiltyard.errors import InputMissing

PATIENT = QUICK.model_copy(update={"patience_s": 3600})
"""As long as an hour's outage is waited out."""

DAMAGES = {"missing": None, "tampered": b"other bytes"}


def damage(place: Arena, name: str, how: str) -> None:
    place.objects.contents.pop(name)
    if (left := DAMAGES[how]) is not None:
        place.objects.contents[name] = left


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("turn", [1, 9], ids=["a turn that it had", "a turn that nobody has counted"])
async def test_nothing_is_planned(client: Client, tmp_path: Path, how: str, turn: int) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        parent = await place.run(tally_task(), "honest")
        damage(place, parent.trace, how)
        with pytest.raises(InputMissing, match=f"the trace {parent.trace} of {parent.episode_id}"):
            await place.ground.plan_fork(parent.episode_id, turn)


@pytest.mark.parametrize("how", DAMAGES)
async def test_one_that_was_planned_before_ends_at_once(client: Client, tmp_path: Path, how: str) -> None:
    async with arena(client, {"honest": honest}, tmp_path) as place, place.worker():
        parent = await place.run(tally_task(), "honest")
        spec = await place.ground.plan_fork(parent.episode_id, 1)
        await place.records.plan([spec])
        damage(place, parent.trace, how)
        async with asyncio.timeout(30):
            await (await place.start(spec, PATIENT)).result()
        ended = await place.outcome(spec)
        assert ended.end is End.ENVIRONMENT_ERROR
        assert f"the trace {parent.trace} of {parent.episode_id}" in ended.reason
