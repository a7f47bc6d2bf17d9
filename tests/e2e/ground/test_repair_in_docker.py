"""The shipped repairs in containers: the reference solves each, as it does elsewhere, and every program is told."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.sandboxes.client import HostClient
from infra.sandboxes.docker.images import ImageRecord
from schemas.episode import End, EpisodeResult, PolicySpec, Validity
from schemas.evidence import Evidence
from schemas.sandbox import DriverName
from schemas.task import Task
from schemas.told import ProcessRecord
from tests.contract.sandboxes.docker_engine import lend_images
from tiltyard.suite import shipped
from tiltyard.trace import unpack
from workers.ground import Ground
from workers.settings import Settings

TASKS = shipped().match(["code-repair/repair/*"])
AT_ONCE = 4
COMPARED = 3
SUPERVISOR = 1

Played = tuple[EpisodeResult, Evidence]


async def played(ground: Ground, tasks: Sequence[Task], driver: DriverName) -> list[Played]:
    """Each by its reference."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(task: Task) -> Played:
        async with gate:
            spec = await ground.plan(task, PolicySpec(target="reference"), seed=0, sandbox=driver)
            await ground.submit([spec])
            result = await ground.result(spec.episode_id)
        return result, unpack(await ground.objects.get(result.trace)).evidence

    return list(await asyncio.gather(*map(one, tasks)))


async def offered(settings: Settings, driver: DriverName) -> bool:
    async with HostClient(settings.sandboxes_socket) as sandboxes:
        return (await sandboxes.offer(driver)).available


@pytest.mark.timeout(300)
async def test_the_reference_repairs_in_docker_what_it_repairs_elsewhere_and_its_programs_are_told(
    ground: Ground, settings: Settings, docker_images: Path
) -> None:
    lend_images(docker_images, settings.images)
    (known,) = [ImageRecord.model_validate_json(file.read_bytes()) for file in docker_images.glob("*.json")]
    in_docker = await played(ground, TASKS, "docker")
    for result, evidence in in_docker:
        assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID), result.reason
        assert result.score.completion == 1, result
        assert result.drain.empty
        assert evidence.sandbox is not None
        facts = evidence.sandbox.facts
        assert (facts.driver, facts.image, facts.watched) == ("docker", known.id, "every_exec")
        assert_is_a_tree(facts.processes)
        assert any("unittest" in one.argv for one in facts.processes), "the tests that the reference ran"
    if await offered(settings, "bubblewrap"):
        elsewhere = await played(ground, TASKS[:COMPARED], "bubblewrap")
        assert digests(in_docker)[:COMPARED] == digests(elsewhere)


def assert_is_a_tree(processes: tuple[ProcessRecord, ...]) -> None:
    """Each program was started by the supervisor, as the first of its command, or by one that was told before."""
    told: dict[int, str] = {}
    for one in processes:
        assert one.op_id
        assert one.parent == SUPERVISOR or told.get(one.parent) == one.op_id, one
        told[one.pid] = one.op_id
    assert SUPERVISOR not in told
    assert any(one.parent != SUPERVISOR for one in processes), "a shell has started programs"


def digests(all_played: list[Played]) -> list[str]:
    return [result.digests.trace for result, _ in all_played]
