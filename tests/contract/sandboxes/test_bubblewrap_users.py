"""The driver as root of several kinds and as an ordinary user, and with one Python or another."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from infra.sandboxes.bubblewrap import BubblewrapLauncher
from infra.sandboxes.host import SandboxHost
from infra.sandboxes.interpreter import SHOWN, Interpreter, interpreters
from infra.sandboxes.stage import CODE, hidden
from tiltyard.testing.sandbox_bench import SandboxBench

USER = 64_123
"""An ordinary user's number that nobody is likely to have."""


NO_WORLD = "502"
"""What a program is answered that asks for a world which its sandbox was not connected with: somebody listens."""


async def as_user(user: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, user, user)
        command = [sys.executable, "-m", "tests.contract.sandboxes.ordinary_user", str(user), folder]
        ended = await asyncio.to_thread(
            subprocess.run, command, cwd=CODE, capture_output=True, text=True, timeout=120
        )
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else; the other tests are of this user")
async def test_an_ordinary_user_has_sandboxes_without_root(bubblewrap: BubblewrapLauncher) -> None:
    told = await as_user(USER)
    offer = told["offer"]
    if not offer["available"]:
        pytest.skip(f"ordinary users have none here, and are told: {offer['problem']} ({offer['fix']})")
    assert told["user"] == USER
    assert told["said"] == ["1000", "42", "1000", "1000", "0", "1"]
    assert told["files"] == {"file": "text"}
    assert told["served"] == NO_WORLD
    assert (told["drain"]["found"], told["drain"]["empty"]) == (1, True)
    assert told["left"] == []
    # Control groups are root's, unless the system has given some to the user.
    assert {"cpu", "processes", "disk", "output", "network", "files"} <= set(offer["enforced"])
    assert "file_count" not in offer["enforced"]


async def test_what_is_offered_is_what_was_tried(bubblewrap: BubblewrapLauncher) -> None:
    offer = bubblewrap.offer()
    assert (offer.available, offer.problem, offer.fix) == (True, "", "")
    assert {"cpu", "processes", "disk", "output", "network", "files"} <= set(offer.enforced)
    assert ("file_count" in offer.enforced) is (os.geteuid() == 0), "only root can mount with such a limit"
    if os.geteuid() == 0 and any(Path("/sys/fs/cgroup").glob("**/memory.limit_in_bytes")):
        assert "memory" in offer.enforced


async def in_user_namespace(before: str, folder: Path) -> dict[str, Any]:
    """As root of a user namespace with nobody else in it: what root of a rootless container is."""
    session = [sys.executable, "-m", "tests.contract.sandboxes.ordinary_user", "0", str(folder), "--now"]
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", f'{before}; exec "$@"', "sh", *session]
    ended = await asyncio.to_thread(subprocess.run, command, cwd=CODE, capture_output=True, text=True, timeout=120)
    if "unshare failed" in ended.stderr:
        pytest.skip(f"no user namespaces here: {ended.stderr.strip()}")
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


async def test_root_without_other_users_has_sandboxes_like_an_ordinary_user(tmp_path: Path) -> None:
    told = await in_user_namespace(":", tmp_path)
    assert told["offer"]["available"], told
    assert (told["said"][:3], told["drain"]["empty"], told["left"]) == (["1000", "42", "1000"], True, [])
    assert told["served"] == NO_WORLD


async def test_where_there_are_no_user_namespaces_the_offer_says_so_and_how_to_mend_it(tmp_path: Path) -> None:
    told = await in_user_namespace("echo 0 > /proc/sys/user/max_user_namespaces", tmp_path)
    offer = told["offer"]
    assert (offer["available"], offer["enforced"]) == (False, [])
    assert "user.max_user_namespaces = 0" in offer["problem"]
    assert "sysctl -w user.max_user_namespaces=" in offer["fix"]
    assert "--sandbox unsafe-local" in offer["fix"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose")
async def test_root_that_may_not_mount_has_sandboxes_all_the_same(tmp_path: Path) -> None:
    """As in a container that lets it make user namespaces: with the interpreters that another user can reach."""
    session = [sys.executable, "-m", "tests.contract.sandboxes.ordinary_user", "0", str(tmp_path), "--now"]
    command = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", *session]
    before = set(Path(tempfile.gettempdir()).glob("tiltyard-stage-*"))
    ended = await asyncio.to_thread(subprocess.run, command, cwd=CODE, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    if not Path("/usr/bin/python3").exists() and not told["offer"]["available"]:
        pytest.skip("there is no python3 that another user can reach")
    assert told["offer"]["available"], told
    assert (told["said"][:3], told["drain"]["empty"], told["left"]) == (["1000", "42", "1000"], True, [])
    assert told["served"] == NO_WORLD
    assert set(Path(tempfile.gettempdir()).glob("tiltyard-stage-*")) <= before


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="the system has no Python of its own")
async def test_the_systems_python_serves_too(bubblewrap: BubblewrapLauncher, tmp_path: Path) -> None:
    launcher = BubblewrapLauncher(tmp_path / "stage", [Interpreter(SHOWN)])
    try:
        offer = launcher.offer()
        if not offer.available:
            pytest.skip(f"the system's Python does not do: {offer.problem}")
        host = SandboxHost({"bubblewrap": launcher}, tmp_path / "boxes", slots=1)
        async with host, SandboxBench(host, "bubblewrap").sandbox() as box:
            found = await box.out("command -v python3; echo $PATH; python3 -c 'import json; print(json.dumps(7))'")
            assert found.split() == ["/usr/bin/python3", "/usr/bin:/bin", "7"]
    finally:
        launcher.close()


async def test_a_python_that_does_not_do_is_passed_over(bubblewrap: BubblewrapLauncher, tmp_path: Path) -> None:
    fake = tmp_path / "fake" / "bin" / "python3"
    fake.parent.mkdir(parents=True)
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    launcher = BubblewrapLauncher(tmp_path / "stage", [Interpreter(tmp_path / "fake"), *interpreters()])
    try:
        assert launcher.offer().available
    finally:
        launcher.close()
    launcher = BubblewrapLauncher(tmp_path / "stage", [Interpreter(tmp_path / "fake")])
    try:
        offer = launcher.offer()
        assert not offer.available
        assert "python3" in offer.problem
    finally:
        launcher.close()


@pytest.mark.parametrize(
    ("prefix", "packages", "code", "expected"),
    [
        ("/opt/py", "/opt/py/lib/site-packages", "/srv/app", ["/opt/python/lib/site-packages"]),
        ("/usr/local", "/usr/local/lib/python3.12/site-packages", "/usr/src/app",
         ["/usr/local/lib/python3.12/site-packages", "/usr/src/app"]),
        ("/usr", "/usr/lib/site-packages", "/usr/lib/site-packages/inner", ["/usr/lib/site-packages"]),
        ("/opt/py", "/opt/py/packages", "/opt/py/app", ["/opt/python/app", "/opt/python/packages"]),
    ],
)  # fmt: skip
def test_tiltyard_and_what_is_installed_beside_it_are_hidden(
    prefix: str, packages: str, code: str, expected: list[str]
) -> None:
    found = hidden(Interpreter(Path(prefix), (Path(packages),)), Path(code))
    assert list(map(str, found)) == expected
