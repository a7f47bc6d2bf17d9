"""The driver as root and as an ordinary user, each with what it can hold there."""

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
from infra.sandboxes.stage import CODE

USER = 64_123
"""An ordinary user's number that nobody is likely to have."""


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
    assert told["said"] == ["1000", "42", "1000", "0", "1"]
    assert told["files"] == {"file": "text"}
    assert (told["drain"]["found"], told["drain"]["empty"]) == (1, True)
    assert told["left"] == []
    # Control groups are root's, unless the system has given some to the user.
    assert {"cpu", "processes", "disk", "output", "network", "files"} <= set(offer["enforced"])


async def test_what_is_offered_is_what_was_tried(bubblewrap: BubblewrapLauncher) -> None:
    offer = bubblewrap.offer()
    assert (offer.available, offer.problem, offer.fix) == (True, "", "")
    assert {"cpu", "processes", "disk", "output", "network", "files"} <= set(offer.enforced)
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
    assert (told["said"][:2], told["drain"]["empty"], told["left"]) == (["1000", "42"], True, [])


async def test_where_there_are_no_user_namespaces_the_offer_says_so_and_how_to_mend_it(tmp_path: Path) -> None:
    told = await in_user_namespace("echo 0 > /proc/sys/user/max_user_namespaces", tmp_path)
    offer = told["offer"]
    assert (offer["available"], offer["enforced"]) == (False, [])
    assert "user.max_user_namespaces = 0" in offer["problem"]
    assert "sysctl -w user.max_user_namespaces=" in offer["fix"]
    assert "--sandbox unsafe-local" in offer["fix"]
