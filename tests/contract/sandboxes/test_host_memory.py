"""What a host tells of commands and sandboxes that were killed for want of memory."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.sandboxes.host import SandboxHost
from infra.sandboxes.records import counts
from schemas.sandbox import SandboxRef
from tests.contract.sandboxes.host_yard import SHORT, SLEEP, TRUE, Yard, open_yard, order, sealed
from tiltyard.errors import SandboxLost, SandboxOutOfMemory


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path / "sandboxes") as made:
        yield made


async def test_a_command_that_the_machine_killed_is_told_as_such_and_stays_so(yard: Yard) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    killed = {"exec": {"exit_code": None, "signal": "SIGKILL"}}
    balloon, plain = (TRUE.model_copy(update={"op_id": name}) for name in ("balloon", "plain"))
    for request, kills in ((plain, 0), (balloon, 1), (plain, 2), (balloon, 2)):
        asked = asyncio.create_task(host.call(ref, request))
        yard.launcher.says["call"] = {"op_id": request.op_id, **killed}
        await asyncio.sleep(0)
        yard.last.memory = kills
        reply = await asked
        assert reply.exec is not None
        assert reply.exec.out_of_memory == (request is balloon)


async def killed_for_memory(yard: Yard, host: SandboxHost, ref: SandboxRef, kills: int) -> None:
    """The supervisor dies in a command, and so many were killed for want of memory meanwhile."""
    asked = asyncio.create_task(host.call(ref, SLEEP))
    while "call" not in yard.last.asked:
        await asyncio.sleep(0)
    yard.last.memory += kills
    yard.last.die()
    with pytest.raises(SandboxLost) as raised:
        await asked
    assert isinstance(raised.value, SandboxOutOfMemory) == (kills > 0), raised.value


@pytest.mark.parametrize("kills", [0, 2])
async def test_a_loss_for_want_of_memory_is_told_as_one_and_stays_one(
    yard: Yard, kills: int, caplog: pytest.LogCaptureFixture
) -> None:
    kind = SandboxOutOfMemory if kills else SandboxLost
    host = await yard.start()
    ref = await host.provision(order())
    with caplog.at_level(logging.WARNING):
        await killed_for_memory(yard, host, ref, kills)
        while counts(yard.folder) != {"lost": 1}:
            await asyncio.sleep(0)
    assert ("ended 2 processes in it for want of memory" in caplog.text) == (kills > 0)
    for one in (host, await yard.start()):
        with pytest.raises(SandboxLost) as raised:
            await one.snapshot(ref, {})
        assert type(raised.value) is kind


async def test_a_kill_for_want_of_memory_that_the_supervisor_outlived_is_to_blame_for_no_loss(yard: Yard) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    yard.last.memory = 3
    await host.call(ref, TRUE)
    await killed_for_memory(yard, host, ref, 0)


async def test_a_supervisor_that_does_not_answer_while_memory_is_wanting(yard: Yard) -> None:
    host = await yard.start(patience=SHORT)
    ref = await sealed(host)
    yard.launcher.mute.add("snapshot")
    asked = asyncio.create_task(host.snapshot(ref, {}))
    while "snapshot" not in yard.last.asked:
        await asyncio.sleep(0)
    yard.last.memory = 1
    with pytest.raises(SandboxOutOfMemory, match=r"did not answer 'snapshot' .* want of memory"):
        await asked


async def test_the_end_of_a_host_is_no_want_of_memory(yard: Yard) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    yard.last.memory = 1
    await host.__aexit__()
    with pytest.raises(SandboxLost) as raised:
        await (await yard.start()).snapshot(ref, {})
    assert type(raised.value) is SandboxLost
