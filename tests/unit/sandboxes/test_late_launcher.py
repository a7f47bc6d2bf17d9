"""A driver that takes long to load is loaded when it is needed, or when something of it may be left."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from infra.sandboxes.late import LateLauncher
from infra.sandboxes.launching import Launched
from schemas.sandbox import DriverName, SandboxOffer, SandboxOrder


class Counting:
    """Implements ``Closable``, and counts what it is asked."""

    driver: DriverName = "docker"

    def __init__(self) -> None:
        self.loaded = self.swept = self.closed = 0

    def load(self) -> "Counting":
        self.loaded += 1
        return self

    def offer(self) -> SandboxOffer:
        return SandboxOffer(driver="docker", available=True)

    async def launch(self, order: SandboxOrder, folder: Path) -> Launched:
        raise NotImplementedError

    async def find(self, identity: dict[str, object]) -> None:
        return None

    def sweep(self, identity: dict[str, object]) -> bool:
        return True

    def strays(self) -> int:
        self.swept += 1
        return 3

    def close(self) -> None:
        self.closed += 1


class Slow(Counting):
    """Loads when it is let, and says when it begins."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.goes_on = threading.Semaphore(0), threading.Event()
        self.loaded_in = ""

    def load(self) -> "Slow":
        self.loaded_in = threading.current_thread().name
        self.began.release()
        self.goes_on.wait()
        self.loaded += 1
        return self


def test_two_who_need_it_first_share_one(tmp_path: Path) -> None:
    """Each would end what the other makes: nobody has that, for all it knows."""
    (tmp_path / "used" / "one").mkdir(parents=True)
    slow = Slow()
    late = LateLauncher("docker", slow.load, tmp_path / "used")
    with ThreadPoolExecutor(2) as threads:
        offer, strays = threads.submit(late.offer), threads.submit(late.strays)
        slow.began.acquire()
        second_began = slow.began.acquire(timeout=0.2)
        slow.goes_on.set()
        assert (offer.result().available, strays.result()) == (True, 3)
    assert (slow.loaded, second_began) == (1, False)


async def test_who_finds_a_sandbox_with_it_first_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    slow = Slow()
    slow.goes_on.set()
    late = LateLauncher("docker", slow.load, tmp_path / "used")
    assert await late.find({}) is None
    assert slow.loaded_in != threading.current_thread().name


def test_what_was_never_used_is_never_loaded(tmp_path: Path) -> None:
    counting = Counting()
    late = LateLauncher("docker", counting.load, tmp_path / "used")
    assert late.strays() == 0
    (tmp_path / "used").mkdir()
    assert late.strays() == 0
    late.close()
    assert (counting.loaded, counting.swept, counting.closed) == (0, 0, 0)


def test_what_an_earlier_process_left_is_ended_by_one_that_does_not_use_it(tmp_path: Path) -> None:
    (tmp_path / "used" / "one").mkdir(parents=True)
    counting = Counting()
    late = LateLauncher("docker", counting.load, tmp_path / "used")
    late.close()
    assert (counting.loaded, counting.closed) == (1, 1)
    assert LateLauncher("docker", counting.load, tmp_path / "used").strays() == 3


def test_one_that_was_used_is_loaded_once_and_closed(tmp_path: Path) -> None:
    counting = Counting()
    late = LateLauncher("docker", counting.load, tmp_path / "used")
    assert late.offer().available
    assert late.strays() == 3
    late.close()
    assert (counting.loaded, counting.swept, counting.closed) == (1, 1, 1)
