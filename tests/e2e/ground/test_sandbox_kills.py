"""SIGKILL in the middle of a command: of the worker, and of the host of the sandbox."""

import pytest

from infra.sandboxes.client import HostClient
from schemas.episode import End, Validity
from tests.e2e.ground.kills import LONG, killed_task, played
from tests.workflow.arena import until
from workers.ground import Ground
from workers.settings import Settings


@pytest.fixture(autouse=True)
async def _works_here(settings: Settings) -> None:
    async with HostClient(settings.sandboxes_socket) as sandboxes:
        offer = await sandboxes.offer("bubblewrap")
    if not offer.available:
        pytest.skip(f"{offer.problem}: {offer.fix}")


async def test_a_killed_worker_runs_no_command_twice(ground: Ground, settings: Settings) -> None:
    task = killed_task(LONG)
    calm, _ = await played(ground, settings, task)
    result, evidence = await played(ground, settings, task, "worker")
    assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID)
    assert result.digests.trace == calm.digests.trace
    assert evidence.turns[0].observations is not None
    assert evidence.turns[0].observations[0].content == {"exit_code": 0, "stdout": "line\n", "stderr": ""}
    assert evidence.sandbox is not None
    assert [(one.started, one.ended) for one in evidence.sandbox.facts.commands] == [(True, True)]


async def test_a_killed_host_costs_the_processes_and_not_the_work(ground: Ground, settings: Settings) -> None:
    """The first command outlasts a slice, so its files are kept; the second is under way when the host dies."""
    task = killed_task("echo kept > kept.txt; sleep 2.5", LONG, "cat kept.txt; ls")
    result, evidence = await played(ground, settings, task, "sandboxes")
    assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID), result.reason
    shown = [one for turn in evidence.turns for one in turn.observations or ()]
    assert shown[1].code == "sandbox_lost"
    assert "after turn 0" in shown[1].message
    assert isinstance(shown[2].content, dict)
    assert shown[2].content["stdout"] == "kept\nkept.txt\nnotes.txt\n", "no log: it is never run again"
    assert evidence.sandbox is not None
    assert evidence.sandbox.facts.incarnation == 2


async def test_a_task_may_rather_end(ground: Ground, settings: Settings) -> None:
    result, _ = await played(ground, settings, killed_task(LONG, on_loss="environment_error"), "sandboxes")
    assert (result.end, result.validity) == (End.ENVIRONMENT_ERROR, Validity.ENVIRONMENT)
    async with HostClient(settings.sandboxes_socket) as sandboxes:
        await until(lambda: _none(sandboxes))


async def _none(sandboxes: HostClient) -> bool:
    return await sandboxes.sandboxes() == ()
