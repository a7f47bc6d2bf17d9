"""Checks of the sandbox kit: from provision to release, with settle, seal, drain and facts on the way."""

import asyncio
from collections.abc import Awaitable, Callable

from schemas.operation import request_digest
from tiltyard.errors import LateWrite, SandboxLost
from tiltyard.testing.sandbox_bench import OWNER, Box, SandboxBench, refuses

FOREVER = "sleep 1000 &"

WRITER = " && ".join(["sleep 0.02 && echo line >> log"] * 1000)
"""Writes for twenty seconds at least."""


async def _state(box: Box) -> str:
    """Of the box's incarnation in ``sandboxes()``; empty when it is not listed."""
    records = await box.bench.soon(box.port.sandboxes())
    return next((record.state for record in records if record.ref == box.ref), "")


async def _is_lost(box: Box) -> None:
    """Every method that needs a sandbox says that there is none."""
    port, ref = box.port, box.ref
    attempts: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: port.call(ref, box.script("true")),
        lambda: port.snapshot(ref, {}),
        lambda: port.settle(ref, 0),
        lambda: port.seal(ref),
        lambda: port.drain(ref),
        lambda: port.facts(ref),
    )
    for attempt in attempts:
        await refuses(SandboxLost, box.bench.soon(attempt()))


async def a_driver_says_what_it_holds(bench: SandboxBench) -> None:
    offer = await bench.port.offer(bench.driver)
    assert (offer.driver, offer.available, offer.problem) == (bench.driver, True, ""), offer
    assert offer.slots > 0, "a driver that works has a slot"
    assert len(set(offer.enforced)) == len(offer.enforced), offer


async def provision_is_idempotent(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.sh("echo kept > file")
        assert await box.provision() == box.ref
        assert await box.content("file") == b"kept\n", "a second one took its place"


async def provisions_at_once_share_one_sandbox(bench: SandboxBench) -> None:
    async with bench.sandbox() as first:
        box = first.again()
        assert set(await asyncio.gather(*(box.provision() for _ in range(4)))) == {box.ref}
        await box.sh("echo kept > file")
        assert await box.provision() == box.ref
        assert await box.content("file") == b"kept\n"


async def sandboxes_are_listed_until_they_are_released(bench: SandboxBench) -> None:
    async with bench.sandbox(episode_id="the-episode") as box:
        records = [record for record in await bench.port.sandboxes() if record.ref.name == box.order.name]
        assert [(one.ref, one.owner, one.episode_id, one.state) for one in records] == [
            (box.ref, OWNER, "the-episode", "live")
        ]
        await bench.soon(bench.port.seal(box.ref))
        assert await _state(box) == "sealed"
        await bench.soon(bench.port.release(box.ref))
        assert await _state(box) == ""


async def a_higher_incarnation_discards_the_lower(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.sh(f"echo canary > file; {FOREVER}")
        later = box.again()
        assert await later.provision() == later.ref
        assert later.ref.incarnation == 2
        await _is_lost(box)
        assert await later.settle(0), "processes of the earlier incarnation are there"
        assert (await _state(box), await _state(later)) == ("", "live")


async def a_command_in_flight_ends_with_its_sandbox(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        asked = asyncio.create_task(box.sh("echo begun > log; sleep 1000", op_id="unknown", timeout_s=1000))
        await box.appears("log")
        await box.again().provision()
        await refuses(SandboxLost, asked)
        await refuses(SandboxLost, box.sh("echo begun > log; sleep 1000", op_id="unknown", timeout_s=1000))


async def an_incarnation_is_provisioned_once(bench: SandboxBench) -> None:
    async with bench.sandbox(incarnation=3) as box:
        lower = Box(bench, box.order.model_copy(update={"incarnation": 2}))
        await refuses(SandboxLost, lower.provision())
        await bench.soon(bench.port.release(box.ref))
        for gone in (box, lower):
            await refuses(SandboxLost, gone.provision())
        later = box.again()
        assert (await later.provision()).incarnation == 4
        await refuses(SandboxLost, box.provision())
        assert await later.out("ls") == ""


async def a_release_names_an_incarnation_and_may_come_twice(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        later = box.again()
        await later.provision()
        await later.sh("echo kept > file")
        for _ in range(2):
            await bench.soon(bench.port.release(box.ref))
        assert await later.content("file") == b"kept\n", "a later incarnation was touched"
        for _ in range(2):
            await bench.soon(bench.port.release(later.ref))
        await _is_lost(later)
        await bench.soon(bench.port.release(Box(bench, bench.order()).ref))


async def what_was_never_there_is_lost(bench: SandboxBench) -> None:
    await _is_lost(Box(bench, bench.order()))
    async with bench.sandbox() as box:
        await _is_lost(box.again())
        assert await _state(box) == "live", "another incarnation was meant"


async def settle_waits_for_what_ends(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        assert await box.settle(0), "nothing runs, and it is not settled"
        await box.sh("sleep 0.4 && echo done > file &")
        assert await box.settle(60)
        assert await box.content("file") == b"done\n", "it did not wait"


async def settle_gives_up_at_its_limit(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.sh(FOREVER)
        for limit_s in (0, 0.1):
            assert not await box.settle(limit_s), "a process runs, and it is called settled"
        assert (await box.sh("true")).exit_code == 0


async def nothing_new_starts_after_the_seal(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        done = await box.sh("echo before >> log", op_id="before")
        for _ in range(2):
            await bench.soon(bench.port.seal(box.ref))
        await refuses(LateWrite, box.sh("echo after >> log", op_id="after"))
        await refuses(LateWrite, box.write("log", b"after", op_id="after too"))
        await refuses(LateWrite, box.sh("echo after >> log", op_id="after"))
        assert await box.sh("echo before >> log", op_id="before") == done, "what was recorded is forgotten"
        assert await box.files() == {"log": b"before\n"}, "something took effect after the seal"
        drain = await bench.soon(bench.port.drain(box.ref))
        assert drain.refused >= 2, f"late requests are not counted: {drain}"


async def a_drain_ends_everything_and_says_so_again(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.sh(f"{FOREVER} {FOREVER} echo begun")
        await bench.soon(bench.port.seal(box.ref))
        drain = await bench.soon(bench.port.drain(box.ref))
        assert (drain.found, drain.ended_by_term, drain.ended_by_kill, drain.empty) == (2, 2, 0, True), drain
        assert await bench.soon(bench.port.drain(box.ref)) == drain
        assert await box.settle(0), "something outlived the drain"
        await refuses(LateWrite, box.sh("true"))


async def a_drain_of_nothing_finds_nothing(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.sh("true")
        await bench.soon(bench.port.seal(box.ref))
        drain = await bench.soon(bench.port.drain(box.ref))
        assert (drain.found, drain.refused, drain.empty) == (0, 0, True), drain


async def a_late_writer_does_not_outlive_the_drain(bench: SandboxBench) -> None:
    """It writes all the time, so it does after the drain too if it is there; to settle is to wait for it then."""
    async with bench.sandbox() as box:
        await box.sh(f"{WRITER} &")
        await box.appears("log")
        await bench.soon(bench.port.seal(box.ref))
        drain = await bench.soon(bench.port.drain(box.ref))
        assert drain.found > 0, "the writer was gone before the drain"
        after = await box.files()
        await box.settle(1)
        assert await box.files() == after, "it wrote after the drain"


async def a_command_in_flight_is_ended_by_the_drain(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        asked = asyncio.create_task(box.sh("echo begun > log; sleep 1000", op_id="open", timeout_s=1000))
        await box.appears("log")
        await box.close()
        result = await asked
        assert (result.exit_code, result.timed_out) == (None, False), result
        assert result.signal in ("SIGTERM", "SIGKILL"), result
        (record,) = [one for one in (await box.port.facts(box.ref)).commands if one.op_id == "open"]
        assert (record.started, record.ended) == (True, False), record


async def facts_tell_operations_programs_and_environment(bench: SandboxBench) -> None:
    async with bench.sandbox(environment={"GREETING": "good day"}) as box:
        failing = box.script("exit 3", op_id="failing")
        writing = box.script(f"{FOREVER} sleep 0.2", op_id="leaving")
        await box.call(failing)
        await box.call(writing)
        await box.put("file", b"x", op_id="writing")
        await box.close()
        facts = await bench.soon(bench.port.facts(box.ref))
        assert (facts.driver, facts.incarnation) == (bench.driver, 1)
        assert facts.environment["GREETING"] == "good day"
        assert facts.enforced == (await bench.port.offer(bench.driver)).enforced
        assert facts.drain == await bench.port.drain(box.ref)
        commands = {one.op_id: one for one in facts.commands}
        assert list(commands) == ["failing", "leaving", "writing"], "operations are not in their order"
        assert (commands["failing"].argv, commands["failing"].exit_code) == (failing.argv, 3)
        assert commands["failing"].request_digest == request_digest(failing)
        assert (commands["writing"].do, commands["writing"].path) == ("write", "file")
        assert all(one.started and one.ended for one in facts.commands), facts.commands
        left = [(one.argv, one.op_id) for one in facts.processes if one.left]
        assert left == [(("sleep", "1000"), "leaving")], f"what was left is told as {left}"
        assert facts.watched == "snapshots" or (failing.argv, "failing") in [
            (one.argv, one.op_id) for one in facts.processes
        ], "each program is said to be seen, and one is missing"


async def a_sweep_spares_whatever_somebody_has(bench: SandboxBench) -> None:
    """Also what is being made meanwhile, and what is lost or sealed."""
    async with bench.sandbox() as box, bench.sandbox() as sealed:
        await box.sh(f"echo kept > file; {FOREVER}")
        await bench.soon(bench.port.seal(sealed.ref))
        coming = [asyncio.create_task(bench.port.provision(bench.order())) for _ in range(2)]
        while not all(one.done() for one in coming):
            await bench.soon(bench.port.sweep())
            await asyncio.sleep(0.005)
        await bench.soon(bench.port.sweep())
        live = [one.result() for one in coming]
        states = {one.ref: one.state for one in await bench.port.sandboxes()}
        for ref in live:
            assert (await bench.port.settle(ref, 0), states[ref]) == (True, "live")
            await bench.soon(bench.port.release(ref))
        assert (await box.content("file"), await _state(sealed)) == (b"kept\n", "sealed")
        assert not await box.settle(0), "a process has been ended"


async def slots_bound_how_many_there_are(bench: SandboxBench) -> None:
    """Those who wait come in their turn. Needs a port with few slots, all of them free."""
    slots = (await bench.port.offer(bench.driver)).slots
    if slots > FEW_SLOTS:
        return
    rooms = [await bench.port.capacity()]
    held = [await bench.port.provision(bench.order()) for _ in range(slots)]
    waiting = [asyncio.create_task(bench.port.provision(bench.order())) for _ in range(slots)]
    await asyncio.sleep(0.1)
    early = [one for one in waiting if one.done()]
    rooms.append(await bench.port.capacity())
    for number, ref in enumerate(held):
        await bench.soon(bench.port.release(ref))
        await bench.soon(asyncio.wait([waiting[number]]))
        early += [one for one in waiting[number + 1 :] if one.done()]
    for one in waiting:
        await bench.soon(bench.port.release(one.result()))
    rooms.append(await bench.port.capacity())
    assert [(room.slots, room.free) for room in rooms] == [(slots, slots), (slots, 0), (slots, slots)]
    assert not early, "more sandboxes were there than slots, or one that came later was given the slot"


FEW_SLOTS = 8

ENDING_CHECKS = (
    a_driver_says_what_it_holds,
    provision_is_idempotent,
    provisions_at_once_share_one_sandbox,
    sandboxes_are_listed_until_they_are_released,
    a_higher_incarnation_discards_the_lower,
    a_command_in_flight_ends_with_its_sandbox,
    an_incarnation_is_provisioned_once,
    a_release_names_an_incarnation_and_may_come_twice,
    what_was_never_there_is_lost,
    settle_waits_for_what_ends,
    settle_gives_up_at_its_limit,
    nothing_new_starts_after_the_seal,
    a_drain_ends_everything_and_says_so_again,
    a_drain_of_nothing_finds_nothing,
    a_late_writer_does_not_outlive_the_drain,
    a_command_in_flight_is_ended_by_the_drain,
    facts_tell_operations_programs_and_environment,
    a_sweep_spares_whatever_somebody_has,
    slots_bound_how_many_there_are,
)
