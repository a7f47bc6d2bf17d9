"""What an operator is told of a machine without sandboxes, and what the machine is judged by."""

import copy
from typing import Any

import pytest

from infra.sandboxes.bwrap import beside_usr
from infra.sandboxes.diagnosis import CAUSES, diagnose, platform_problem
from infra.sandboxes.judging import REQUIRED, enforced, lacking
from infra.sandboxes.volumes import Volume

BWRAP_SAID = "bwrap: setting up uid map: Permission denied\n"
OLDEST, OWN, ROOM, CLOSED, SILENT = REQUIRED
SIZES = {"/work": 64, "/tmp": 32, "/dev/shm": 32}
VOLUMES = [Volume(name, size, "755") for name, size in SIZES.items()]
FILES = {volume.name: volume.files for volume in VOLUMES}
GOOD: dict[str, Any] = {
    "version": [3, 11],
    "ids": [1000, 1000, 1],
    "writable_bytes": SIZES,
    "writable_files": FILES,
    "written": [],
    "interfaces": ["lo"],
    "routes": 0,
    "vsock": False,
    "namespaces": False,
    "status": {"CapEff": "0", "CapBnd": "0", "NoNewPrivs": "1", "Seccomp": "2"},
    "processes": 8,
}


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.file)
def test_each_cause_is_told_with_its_mend(cause: Any) -> None:
    problem, fix = diagnose(BWRAP_SAID, lambda file: f"first\n{cause.line}\n" if file == cause.file else "")
    assert problem.startswith(cause.problem)
    assert "setting up uid map" in problem
    assert fix.startswith(cause.fix)
    assert "--sandbox unsafe-local" in fix


def test_the_usual_values_are_no_causes() -> None:
    usual = {
        "/proc/sys/user/max_user_namespaces": "96365\n",
        "/proc/sys/kernel/unprivileged_userns_clone": "1\n",
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "0\n",
        "/proc/self/status": "Seccomp:\t0\nSeccomp_filters:\t0\n",
    }
    assert diagnose(BWRAP_SAID, lambda file: usual[file])[0] == "bwrap: setting up uid map: Permission denied"


def test_words_are_few_and_there_are_always_some() -> None:
    problem, _ = diagnose("x" * 100_000 + "\nlast line", lambda _: "")
    assert len(problem) <= 300
    assert problem.endswith("last line")
    assert diagnose("", lambda _: "")[0] == "bwrap ended and said nothing"


def test_another_system_is_told_what_it_lacks() -> None:
    problem = platform_problem("darwin")
    assert problem
    assert "darwin" in problem[0]
    assert "unsafe-local" in problem[1]
    assert platform_problem("linux") is None


def test_a_good_sandbox_lacks_nothing() -> None:
    assert lacking(GOOD) == ""
    held = enforced(GOOD, {"memory", "processes", "processors"}, VOLUMES)
    assert held == ("cpu", "memory", "processes", "processors", "disk", "file_count", "output", "network", "files")


@pytest.mark.parametrize(
    ("change", "lacks"),
    [
        ({"version": [3, 8]}, OLDEST),
        ({"ids": [0, 0, 1]}, OWN),
        ({"ids": [1000, 1000, 4711]}, OWN),
        ({"processes": 1}, ROOM),
        ({"written": ["/usr"]}, CLOSED),
        ({"namespaces": True}, CLOSED),
        ({"status": {**GOOD["status"], "Seccomp": "0"}}, CLOSED),
        ({"status": {**GOOD["status"], "NoNewPrivs": "0"}}, CLOSED),
        ({"status": {**GOOD["status"], "CapBnd": "1ff"}}, CLOSED),
        ({"interfaces": ["eth0", "lo"]}, SILENT),
        ({"routes": 1}, SILENT),
        ({"vsock": True}, SILENT),
    ],
)
def test_a_sandbox_that_lacks_something_is_none(change: dict[str, Any], lacks: str) -> None:
    assert lacking({**copy.deepcopy(GOOD), **change}) == lacks


def test_what_was_not_seen_to_hold_is_not_offered() -> None:
    assert "memory" not in enforced(GOOD, set(), VOLUMES)
    assert "processes" in enforced(GOOD, set(), VOLUMES), "each user namespace counts for itself"
    assert "processes" not in enforced({**GOOD, "processes": 16}, set(), VOLUMES)
    assert "disk" not in enforced({**GOOD, "writable_bytes": {**SIZES, "/tmp": 9999}}, set(), VOLUMES)
    assert "file_count" not in enforced({**GOOD, "writable_files": {**FILES, "/tmp": 9999}}, set(), VOLUMES)


def test_what_lies_beside_usr_is_shown_as_it_is(tmp_path: Any) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib64").symlink_to("usr/lib64")
    (tmp_path / "home").mkdir()
    folders, links = beside_usr(tmp_path)
    assert [(str(theirs), str(ours)) for theirs, ours in folders] == [(f"{tmp_path}/bin", "/bin")]
    assert links == [("usr/lib64", "/lib64")]
