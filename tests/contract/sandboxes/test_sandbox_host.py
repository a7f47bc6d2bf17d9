"""The host over a driver without processes: slots, incarnations, launches that fail, releases."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.sandboxes.held import HeldSandbox
from infra.sandboxes.records import Kept
from schemas.sandbox import SandboxRef
from tests.contract.sandboxes.host_yard import SHORT, TRUE, Slow, Yard, open_yard, order, states, waits
from tiltyard.errors import EnvironmentFailed, SandboxLost, SandboxUnavailable


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path / "sandboxes") as made:
        yield made


async def test_slots_are_given_in_the_order_of_asking_and_a_cancelled_one_leaves_the_queue(yard: Yard) -> None:
    host = await yard.start(slots=1)
    first = await host.provision(order("first"))
    cancelled, second, third = [await waits(host, order(name)) for name in ("cancelled", "second", "third")]
    cancelled.cancel()
    await host.release(first)
    assert (await second).name == "second"
    assert not third.done()
    await host.release(await second)
    assert (await third).name == "third"
    assert [one.asked[0] for one in yard.launcher.launched] == ["setup"] * 3, "one was made for nobody"


async def test_one_asker_may_go_and_the_others_still_get_it(yard: Yard) -> None:
    host = await yard.start(slots=1)
    first = await host.provision(order("first"))
    one, other = await waits(host, order("shared")), await waits(host, order("shared"))
    one.cancel()
    await host.release(first)
    assert (await other).name == "shared"


async def test_a_provision_that_was_cancelled_may_be_asked_for_again_at_once(yard: Yard) -> None:
    host = await yard.start(slots=1)
    first = await host.provision(order("first"))
    waiting = await waits(host, order("again"))
    waiting.cancel()
    again = await waits(host, order("again"))
    await host.release(first)
    assert (await again).name == "again"


async def test_a_release_ends_a_provision_that_waits(yard: Yard) -> None:
    host = await yard.start(slots=1)
    await host.provision(order("first"))
    waiting = await waits(host, order("given-up"))
    await host.release(SandboxRef(driver="bubblewrap", name="given-up", incarnation=1))
    with pytest.raises(SandboxLost):
        await waiting
    with pytest.raises(SandboxLost):
        await host.provision(order("given-up"))


async def test_a_release_in_the_middle_of_a_launch_leaves_nothing(yard: Yard) -> None:
    """The removal must not find nothing and then be overtaken by the creation."""
    host = await yard.start()
    making = await waits(host, order())
    while not yard.launcher.places:
        await asyncio.sleep(0)
    await host.release(SandboxRef(driver="bubblewrap", name="one", incarnation=1))
    await asyncio.wait([making])
    assert (await states(host), yard.launcher.places) == ({}, set())


async def test_the_next_incarnation_takes_over_the_slot(yard: Yard) -> None:
    host = await yard.start(slots=1)
    await host.provision(order("one"))
    waiting = await waits(host, order("other"))
    later = await host.provision(order("one", 2))
    assert not waiting.done()
    await host.release(later)
    await waiting
    assert await states(host) == {"other/1": "live"}


async def test_a_higher_incarnation_takes_the_place_of_one_that_waits(yard: Yard) -> None:
    host = await yard.start(slots=1)
    first = await host.provision(order("first"))
    lower, higher = await waits(host, order("one", 1)), await waits(host, order("one", 2))
    await host.release(first)
    assert (await higher).incarnation == 2
    with pytest.raises(SandboxLost):
        await lower
    assert await states(host) == {"one/2": "live"}


async def test_a_launch_that_fails_leaves_nothing_and_may_be_tried_again(yard: Yard) -> None:
    host = await yard.start(slots=1)
    for crash, expected in (
        (OSError("no more processes"), EnvironmentFailed),
        (SandboxUnavailable("it cannot"), SandboxUnavailable),
        (RuntimeError("a bug"), RuntimeError),
    ):
        yard.launcher.crash = crash
        with pytest.raises(expected):
            await host.provision(order())
        assert (await states(host), yard.launcher.places, list(yard.folder.iterdir())) == ({}, set(), [])
    yard.launcher.crash = None
    assert await host.provision(order())


async def test_a_driver_that_fails_at_an_end_is_asked_again(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    host = await yard.start(slots=1)
    ref = await host.provision(order())

    def fail() -> None:
        raise OSError("the engine hung up")

    yard.launcher.while_ending = fail
    with caplog.at_level(logging.ERROR):
        yard.last.die()
        while "cannot be ended" not in caplog.text:
            await asyncio.sleep(0)
        await host.release(ref)
    assert await states(host) == {"one/1": "lost"}
    yard.launcher.while_ending = lambda: None
    await host.release(ref)
    await host.provision(order("next"))


@pytest.mark.parametrize("how", ["mute", "deadly"])
async def test_a_supervisor_that_fails_at_its_setup_is_nobodys_loss(yard: Yard, how: str) -> None:
    host = await yard.start(slots=1, patience=SHORT)
    getattr(yard.launcher, how).add("setup")
    with pytest.raises(EnvironmentFailed, match="could not be made") as raised:
        await host.provision(order())
    assert not isinstance(raised.value, SandboxLost), "which would never be tried again"
    getattr(yard.launcher, how).clear()
    await host.provision(order())


async def test_a_driver_that_does_not_work_says_so_before_any_queue(yard: Yard) -> None:
    yard.launcher.problem = "user namespaces are closed"
    host = await yard.start()
    with pytest.raises(SandboxUnavailable, match="bubblewrap: user namespaces are closed; mend it"):
        await host.provision(order())
    with pytest.raises(SandboxUnavailable, match="use `--sandbox bubblewrap`"):
        await host.provision(order().model_copy(update={"driver": "docker"}))


async def test_a_driver_is_tried_out_until_it_works(yard: Yard) -> None:
    """What was wrong may have been mended, or may have passed, and nobody starts the host anew for it."""
    host = await yard.start()
    yard.launcher.open = EnvironmentFailed("too many open files")
    with pytest.raises(EnvironmentFailed, match="too many open files"):
        await host.provision(order())
    yard.launcher.open, yard.launcher.problem = None, "user namespaces are closed"
    assert not (await host.offer("bubblewrap")).available
    yard.launcher.problem = ""
    await host.provision(order())
    await host.provision(order("another"))
    assert yard.launcher.trials == 3


async def test_all_who_ask_at_once_share_one_trial(yard: Yard) -> None:
    host = await yard.start()
    yard.launcher.problem = "user namespaces are closed"
    asked = [asyncio.create_task(host.offer("bubblewrap")) for _ in range(20)]
    await asyncio.sleep(0)
    asked[0].cancel()
    assert {offer.available for offer in await asyncio.gather(*asked[1:])} == {False}
    assert yard.launcher.trials == 1


async def test_a_cancelled_release_goes_on(yard: Yard) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    release = asyncio.create_task(host.release(ref))
    await asyncio.sleep(0)
    release.cancel()
    while await host.sandboxes():
        await asyncio.sleep(0)
    assert yard.launcher.places == set()


async def test_one_that_is_lost_while_it_is_given_up_leaves_no_record(tmp_path: Path) -> None:
    async def end() -> bool:
        await asyncio.sleep(0)
        return True

    held = HeldSandbox(Kept.of(order()), tmp_path / "one", end, SHORT)
    held.now()
    await asyncio.gather(held.give_up(), held.lose("it did not answer"))
    assert not (tmp_path / "one").exists()


async def test_two_releases_at_once_give_back_one_slot(yard: Yard) -> None:
    host = await yard.start(slots=1)
    ref = await host.provision(order())
    await asyncio.gather(host.release(ref), host.release(ref))
    await host.provision(order("next"))
    waiting = await waits(host, order("one too many"))
    waiting.cancel()


async def test_others_are_served_while_one_is_ended(yard: Yard) -> None:
    host = await yard.start()
    ref = await host.provision(order())
    slow = Slow(yard.launcher)
    releasing = asyncio.create_task(host.release(ref))
    await slow.begun()
    other = await host.provision(order("other"))
    assert (await host.call(other, TRUE)).exec is not None
    slow.enough()
    await releasing


async def test_a_sandbox_is_ended_by_one_at_a_time(yard: Yard) -> None:
    """Who ends it because its supervisor is gone is told to stop by a release, and has begun."""
    host = await yard.start(slots=1)
    ref = await host.provision(order())
    slow = Slow(yard.launcher)
    yard.last.die()
    await slow.begun()
    releasing = asyncio.create_task(host.release(ref))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not releasing.done()
    slow.enough()
    await releasing
    assert yard.launcher.at_once == 1


async def test_what_outlives_a_kill_keeps_its_slot(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    host = await yard.start(slots=1)
    ref = await host.provision(order())
    yard.launcher.stuck = True
    with caplog.at_level(logging.ERROR):
        await host.release(ref)
    assert "one/1 is left after a kill" in caplog.text
    assert await states(host) == {"one/1": "lost"}
    waiting = await waits(host, order("other"))
    yard.launcher.stuck = False
    await host.release(ref)
    await waiting
    assert await states(host) == {"other/1": "live"}


async def test_many_at_once_keep_to_the_slots_and_leave_nothing(yard: Yard) -> None:
    """Provisions of several incarnations, cancels and releases in all orders."""
    host = await yard.start(slots=3)

    async def episode(number: int) -> None:
        ref = SandboxRef(driver="bubblewrap", name=f"e{number % 7}", incarnation=1 + number // 7)
        task = asyncio.create_task(host.provision(order(ref.name, ref.incarnation)))
        for _ in range(number % 5):
            await asyncio.sleep(0.001)
        if number % 4 == 0:
            task.cancel()
        await asyncio.wait([task])
        if number % 3 == 0 and not task.cancelled() and task.exception() is None:
            yard.launcher.launched[-1].die()
        await host.release(ref)

    await asyncio.gather(*(episode(number) for number in range(70)))
    assert (await states(host), yard.launcher.places, list(yard.folder.iterdir())) == ({}, set(), [])
    held = [await host.provision(order(f"after{number}")) for number in range(3)]
    assert len(held) == 3, "a slot has leaked"
    await waits(host, order("one too many"))
