"""Records that lie where the host's are and are none of its sandboxes: they are ended and forgotten, once."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.sandboxes.host import SandboxHost
from schemas.sandbox import SandboxOrder
from tests.contract.sandboxes.memory_launcher import MemoryLauncher
from tiltyard.testing.sandbox_bench import OWNER

ORDER = SandboxOrder(driver="bubblewrap", name="one", incarnation=1, owner=OWNER, episode_id="of one")


def of_another_driver(folder: Path) -> None:
    record = folder / "record.json"
    said = json.loads(record.read_text())
    said["ref"]["driver"] = "docker"
    record.write_text(json.dumps(said))


def under_another_name(folder: Path) -> None:
    folder.rename(folder.with_name("another"))


def twice_more(folder: Path) -> None:
    for name in ("copy", "z"):
        shutil.copytree(folder, folder.with_name(name))


@pytest.mark.parametrize(
    ("change", "told"),
    [(of_another_driver, []), (under_another_name, []), (twice_more, ["lost"])],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_record_of_no_sandbox_here_is_swept_and_told_of_once(
    tmp_path: Path, change: Callable[[Path], None], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    launcher = MemoryLauncher()

    def host() -> SandboxHost:
        return SandboxHost({"bubblewrap": launcher}, tmp_path, slots=1)

    async with host() as first:
        await first.provision(ORDER)
    change(*tmp_path.iterdir())
    folders = {str(folder) for folder in tmp_path.iterdir()}
    launcher.swept.clear()
    async with host() as second:
        records = await second.sandboxes()
        assert [one.state for one in records] == told
        assert {one["folder"] for one in launcher.swept} == folders
        for record in records:
            await second.release(record.ref)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert list(tmp_path.iterdir()) == []


async def test_what_cannot_be_swept_is_tried_again(tmp_path: Path) -> None:
    launcher = MemoryLauncher()
    async with SandboxHost({"bubblewrap": launcher}, tmp_path, slots=1) as host:
        await host.provision(ORDER)
    of_another_driver(*tmp_path.iterdir())
    for stuck, left in ((True, 1), (False, 0)):
        launcher.stuck = stuck
        async with SandboxHost({"bubblewrap": launcher}, tmp_path, slots=1) as host:
            assert await host.sandboxes() == ()
        assert len(list(tmp_path.iterdir())) == left
