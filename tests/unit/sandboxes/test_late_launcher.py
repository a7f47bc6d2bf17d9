"""A driver that takes long to load is loaded when it is needed, or when something of it may be left."""

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
