"""What the doctor says of sandboxes."""

import os
import re
from pathlib import Path
from typing import get_args

import pytest

from infra.local.paths import StackPaths
from infra.local.processes import identify
from infra.local.state import StackState
from infra.sandboxes.records import Kept, counts, folder_of, write
from ops.cli.sandbox_checks import bubblewrap, driver_check, sandbox_host
from schemas.sandbox import Enforced, SandboxOffer, SandboxRef, Sight
from schemas.world import Owner
from workers.settings import Settings

ALL: tuple[Enforced, ...] = get_args(Enforced)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    StackPaths(tmp_path).make()
    return Settings(home=tmp_path, runtime=tmp_path / "runtime")


def test_a_driver_that_holds_everything_is_ok() -> None:
    found = driver_check(SandboxOffer(driver="bubblewrap", available=True, enforced=ALL))
    assert (found.verdict, found.fix) == ("ok", "")
    assert all(limit in found.detail for limit in ALL)


def test_what_an_ordinary_user_is_told_is_what_the_page_says() -> None:
    """Of the number of files too, and with one and the same command."""
    held = tuple(one for one in ALL if one not in ("memory", "file_count"))
    found = driver_check(SandboxOffer(driver="bubblewrap", available=True, enforced=held))
    assert "not file_count: " in found.detail
    assert "memory only" in found.detail
    (command,) = re.findall(r"`(systemd-run [^`]+)`", found.fix)
    page = " ".join((Path(__file__).parents[3] / "docs" / "sandboxes.md").read_text().split())
    assert re.findall(r"`(systemd-run [^`]+)`", page) == [command]


@pytest.mark.parametrize("limit", ["memory", "processes", "processors"])
def test_a_limit_that_the_machine_cannot_hold_is_told_with_the_mend(limit: Enforced) -> None:
    held = tuple(one for one in ALL if one != limit)
    found = driver_check(SandboxOffer(driver="bubblewrap", available=True, enforced=held))
    assert (found.ok, found.verdict) == (True, "missing")
    assert f"not {limit}: " in found.detail
    assert "Delegate=yes" in found.fix


def test_the_same_mend_is_told_once() -> None:
    found = driver_check(SandboxOffer(driver="bubblewrap", available=True, enforced=("cpu",)))
    assert found.fix.count("Delegate=yes") == 1
    assert all(f"not {limit}" in found.detail for limit in ALL if limit != "cpu")


def test_a_driver_that_does_not_work_is_told_and_fails_nobody() -> None:
    offer = SandboxOffer(driver="bubblewrap", available=False, problem="no user namespaces", fix="run `sysctl`")
    found = driver_check(offer)
    assert (found.ok, found.verdict, found.fix) == (True, "missing", "run `sysctl`")
    assert "no user namespaces" in found.detail


def test_what_is_told_of_its_sandboxes_is_said() -> None:
    offer = SandboxOffer(driver="docker", available=True, enforced=ALL, sees=get_args(Sight))
    found = driver_check(offer)
    whole = "told: every program, attempts to connect, reads of marked files, processes by control groups"
    assert (found.verdict, whole in found.detail, "not told" in found.detail) == ("ok", True, False)
    some = driver_check(offer.model_copy(update={"sees": ("control_groups", "marked_reads")}))
    assert (
        "told: reads of marked files, processes by control groups; not told: every program, attempts" in some.detail
    )
    assert "alive at a look" in some.detail


def test_unsafe_local_is_never_called_safe() -> None:
    found = driver_check(SandboxOffer(driver="unsafe-local", available=True, enforced=("output",)))
    assert (found.verdict, "isolates nothing" in found.detail) == ("ok", True)


def test_a_driver_is_tried_out_while_the_stack_is_down(settings: Settings) -> None:
    """Whatever this machine can do, the trial has an answer and leaves nothing in the data folder."""
    found = bubblewrap(settings)
    assert found.ok
    assert found.detail.startswith(("works; enforced: ", "does not work here: "))
    assert "trying it out failed" not in found.detail
    assert not settings.sandboxes.exists()
    assert not settings.sandbox_stage.exists()


def test_a_host_that_does_not_answer_is_a_problem(settings: Settings) -> None:
    assert sandbox_host(settings).detail == "not running"
    me = identify(pid=os.getpid())
    assert me is not None
    state = StackState(phase="ready", supervisor=me, config_digest="")
    StackPaths(settings.home).state.write_text(state.model_dump_json())
    found = sandbox_host(settings)
    assert (found.verdict, "does not answer" in found.detail) == ("PROBLEM", True)


def test_sandboxes_are_counted_by_their_records(tmp_path: Path) -> None:
    owner = Owner(cluster="c", temporal_namespace="n", workflow_id="w", first_run_id="r")
    for number, state in enumerate(["live", "live", "sealed", "lost"]):
        ref = SandboxRef(driver="bubblewrap", name=f"a/../{number}\n", incarnation=1)
        kept = Kept.model_validate({"ref": ref, "owner": owner, "episode_id": "e", "state": state})
        write(folder_of(tmp_path, ref), kept)
    (tmp_path / "not a sandbox").mkdir()
    (tmp_path / "file").touch()
    assert counts(tmp_path) == {"live": 2, "sealed": 1, "lost": 1}
    assert counts(tmp_path / "absent") == {}
