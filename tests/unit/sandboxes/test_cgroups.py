"""Where control groups are looked for on machines of several kinds, and what of them is used."""

import os
from pathlib import Path

import pytest

from infra.sandboxes.cgroups import (
    SUPERVISOR_BYTES,
    SUPERVISOR_PROCESSES,
    ControlGroups,
    Place,
    candidates,
    chosen,
    find_groups,
    memory_of,
)
from schemas.sandbox import SandboxLimits

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1 = """\
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw"""
IN_A_CONTAINER = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory"


def tried(cgroup: str, mountinfo: str) -> dict[str, list[str]]:
    """The folders that are tried for each resource, in order."""
    found: dict[str, list[str]] = {}
    for place in candidates(cgroup, mountinfo):
        found.setdefault(place.resource, []).append(str(place.folder))
    return found


def test_version_2_our_own_group_first_then_those_above_it() -> None:
    folders = [
        "/sys/fs/cgroup/user.slice/app.scope",
        "/sys/fs/cgroup/user.slice",
        "/sys/fs/cgroup",
    ]
    assert tried("0::/user.slice/app.scope\n", V2) == dict.fromkeys(("memory", "processes", "processors"), folders)


def test_version_1_each_controller_in_its_own_tree() -> None:
    cgroup = "8:pids:/\n4:memory:/jobs/one\n2:cpu,cpuacct:/\n0::/\n"
    found = tried(cgroup, V1)
    assert found["memory"][:3] == [
        "/sys/fs/cgroup/memory/jobs/one",
        "/sys/fs/cgroup/memory/jobs",
        "/sys/fs/cgroup/memory",
    ]
    assert found["processes"][0] == "/sys/fs/cgroup/pids"
    assert found["processors"][0] == "/sys/fs/cgroup/cpu,cpuacct"


def test_all_groups_of_one_tree_are_one() -> None:
    """Memory may be had in our own group, and processors in one above: to join both is to leave one."""
    own, above = Path("/t/user/app"), Path("/t/user")
    places = [Place(kind, folder, {}, Path("/t")) for kind in ("memory", "processors") for folder in (own, above)]
    taken = chosen(places, lambda place: (place.resource, place.folder) != ("processors", own))
    assert [(place.resource, place.folder) for place in taken] == [("memory", own)]
    assert [place.folder for place in chosen(places, lambda place: True)] == [own, own]
    other = Place("processors", Path("/cpu"), {}, Path("/cpu"))
    assert chosen([*places[:2], other], lambda place: True) == (places[0], other)


def test_a_container_sees_its_own_group_as_the_root() -> None:
    assert tried("4:memory:/docker/abc/x\n", IN_A_CONTAINER)["memory"][0] == "/sys/fs/cgroup/memory/x"
    assert tried("4:memory:/docker/abc\n", IN_A_CONTAINER)["memory"] == ["/sys/fs/cgroup/memory"]
    # Or it sees a path that means nothing to it.
    assert tried("4:memory:/elsewhere\n", IN_A_CONTAINER)["memory"] == ["/sys/fs/cgroup/memory"]


def test_a_folder_that_is_no_control_group_is_not_taken_for_one(tmp_path: Path) -> None:
    groups = find_groups("0::/\n", f"30 23 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw")
    assert groups.enforced == frozenset()
    assert list(tmp_path.iterdir()) == [], "what was tried is taken away"


def test_without_control_groups_there_are_none_and_nothing_fails() -> None:
    groups = find_groups("", "")
    group = groups.make(SandboxLimits())
    group.join(os.getpid())
    assert (groups.enforced, group.folders, group.processes(), group.memory_kills()) == (frozenset(), (), set(), 0)
    assert group.remove()
    groups.remove_orphans()


def test_the_memory_of_all_has_room_for_the_files_and_the_supervisor() -> None:
    limits = SandboxLimits(memory_bytes=2**28, disk_bytes=2**20)
    files = 3 * 4096 + 2 * 1024  # in three folders, each with its least number and one for each of its KiB
    assert memory_of(limits) == 2**28 + 2 * 2**20 + files * 1024 + SUPERVISOR_BYTES


def test_the_kernels_counts_of_both_versions_are_read(tmp_path: Path) -> None:
    first, second = tmp_path / "tiltyard.a", tmp_path / "tiltyard.b"
    for folder in (first, second):
        folder.mkdir()
    (first / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (second / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 0\n")
    place = Place("memory", tmp_path, {})
    group = ControlGroups((place,)).make(SandboxLimits())
    assert group.memory_kills() == 0
    assert type(group)((first, second)).memory_kills() == 5


def test_groups_of_a_process_that_is_gone_are_removed_and_no_others(tmp_path: Path) -> None:
    groups = ControlGroups((Place("memory", tmp_path, {}),))
    ours = groups.make(SandboxLimits())
    (tmp_path / "tiltyard.4194305.1.abc").mkdir()  # no process has a number so high
    (tmp_path / f"tiltyard.{os.getpid()}.1.abc").mkdir()  # ours, but one of an earlier life of the number
    for name in ("tiltyard.x", "user.slice"):
        (tmp_path / name).mkdir()
    groups.remove_orphans()
    assert {path.name for path in tmp_path.iterdir()} == {"tiltyard.x", "user.slice", ours.folders[0].name}


def test_a_group_that_nobody_holds_and_that_stays_is_removed_when_it_can_be(tmp_path: Path) -> None:
    """A start that failed, and whose group does not go in the time that the killed have."""
    groups = ControlGroups((Place("memory", tmp_path, {}),))
    (folder,) = (group := groups.make(SandboxLimits())).folders
    (folder / "held").touch()
    groups.abandon(group)
    assert folder.exists()
    (folder / "held").unlink()
    assert (groups.remove_orphans(), groups.remove_orphans()) == (1, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_group_that_cannot_be_limited_is_taken_away(tmp_path: Path) -> None:
    groups = ControlGroups((Place("processes", tmp_path, {"pids.max": lambda limits: limits.processes}),))
    with pytest.raises(OSError, match=r"pids\.max"):
        groups.make(SandboxLimits())
    assert list(tmp_path.iterdir()) == []


def test_the_machines_own_groups_hold(tmp_path: Path) -> None:
    groups = find_groups()
    if "processes" not in groups.enforced:
        pytest.skip("this machine gives us no control groups")
    group = groups.make(SandboxLimits(processes=17))
    try:
        (held,) = {(folder / "pids.max").read_text() for folder in group.folders if (folder / "pids.max").exists()}
        assert int(held) == 17 + SUPERVISOR_PROCESSES
    finally:
        assert group.remove()
