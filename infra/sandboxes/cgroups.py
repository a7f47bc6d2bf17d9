"""Control groups: how much memory, and how many processes and processors, all of a sandbox may have together.

They are made below the group that this process lives in, or the nearest one above that lets us: of version 1 (one
tree a controller) or 2, whichever has the controller here. Where neither may be written there are none, and only
the limits of single processes hold.
"""

import errno
import os
import secrets
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from infra.local.processes import ProcessId, alive, identify
from infra.sandboxes import volumes
from infra.sandboxes.looking import below, in_time
from infra.sandboxes.passing import may_pass
from schemas.sandbox import Enforced, SandboxLimits

SUPERVISOR_BYTES = 64 * 2**20
"""What the supervisor may take beside the sandbox's own memory."""

SUPERVISOR_PROCESSES = 8
"""Processes of the supervisor beside those of the sandbox: itself, and commands that it prepares."""

PROCESSORS, PERIOD_US = 1, 100_000
"""So many processors may all of a sandbox keep busy, its supervisor included. They are given out anew in each
period, of so many microseconds: whoever has used them up waits for the next one."""

QUOTA_US = PROCESSORS * PERIOD_US

_PREFIX = "tiltyard."


class Place(NamedTuple):
    """A folder in which groups for one resource are made, and the table of what is written into a new one.

    ``tree`` is where its tree is mounted. In one tree a process is in one group only.
    """

    resource: Enforced
    folder: Path
    limits: Mapping[str, Callable[[SandboxLimits], int | str]]
    tree: Path = Path("/")


def memory_of(limits: SandboxLimits) -> int:
    """Bytes of the whole sandbox: what it asked for, its files, which are memory too, and the supervisor."""
    return limits.memory_bytes + volumes.memory_of(limits) + SUPERVISOR_BYTES


def processes_of(limits: SandboxLimits) -> int:
    return limits.processes + SUPERVISOR_PROCESSES


_LIMITS: Mapping[tuple[int, Enforced], Mapping[str, Callable[[SandboxLimits], int | str]]] = {
    # Swap would make a limit on memory a limit on patience. Version 1 counts memory and swap together.
    (1, "memory"): {"memory.limit_in_bytes": memory_of, "memory.memsw.limit_in_bytes": memory_of},
    (1, "processes"): {"pids.max": processes_of},
    (1, "processors"): {"cpu.cfs_period_us": lambda _: PERIOD_US, "cpu.cfs_quota_us": lambda _: QUOTA_US},
    (2, "memory"): {"memory.max": memory_of, "memory.swap.max": lambda _: 0},
    (2, "processes"): {"pids.max": processes_of},
    (2, "processors"): {"cpu.max": lambda _: f"{QUOTA_US} {PERIOD_US}"},
}
_CONTROLLERS: Mapping[str, Enforced] = {"memory": "memory", "pids": "processes", "cpu": "processors"}
_OPTIONAL = ("memory.memsw.limit_in_bytes", "memory.swap.max")  # absent where the kernel does not account for swap


class Group:
    """One sandbox's groups, one folder a tree."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self.folders = folders

    def join(self, pid: int) -> None:
        """Put a process in; its children will be born there. Raises ``OSError``."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def processes(self) -> set[int]:
        """All that are in it now. Zombies count for the limit and are not listed."""
        return {pid for folder in self.folders for pid in _processes(folder)}

    def memory_kills(self) -> int:
        """How many processes the kernel has killed in it for want of memory."""
        return sum(
            int(value)
            for folder in self.folders
            for name in ("memory.oom_control", "memory.events")
            for key, _, value in (line.partition(" ") for line in _read(folder / name).splitlines())
            if key == "oom_kill"
        )

    def kill(self) -> None:
        """SIGKILL all in it."""
        for folder in self.folders:
            kill(folder)

    def remove(self) -> bool:
        """Remove them; whether none is left. One with a process in it stays."""
        left = [folder for folder in self.folders if not _remove(folder)]
        return not left


class ControlGroups:
    """Makes groups in the places of this machine that take them."""

    def __init__(self, places: tuple[Place, ...]) -> None:
        self._places = places
        self._abandoned: list[Group] = []

    @property
    def enforced(self) -> frozenset[Enforced]:
        return frozenset(place.resource for place in self._places)

    def make(self, limits: SandboxLimits) -> Group:
        """A new group with these limits. Its name says which process made it. Raises ``OSError``."""
        name = f"{_PREFIX}{_own_name()}.{secrets.token_hex(4)}"
        group = Group(tuple(dict.fromkeys(place.folder / name for place in self._places)))
        try:
            for folder in group.folders:
                folder.mkdir()
            for place in self._places:
                _limit(place.folder / name, place, limits)
        except OSError:
            group.remove()
            raise
        return group

    def abandon(self, group: Group) -> None:
        """End a group that nobody will hold any more. What is left of it now is an orphan."""
        group.kill()
        if not in_time(group.remove):
            self._abandoned.append(group)

    def remove_orphans(self) -> int:
        """End the groups of processes that are gone, and those that were abandoned; how many there were. Those of
        others are left alone."""
        found = [group for place in self._places for group in place.folder.glob(f"{_PREFIX}*")]
        orphans = [*self._abandoned, *(Group((group,)) for group in found if not _maker_lives(group.name))]
        for group in orphans:
            group.kill()
        in_time(lambda: all(group.remove() for group in orphans))
        gone = [group for group in orphans if group.remove()]
        for group in [one for one in gone if one in self._abandoned]:
            self._abandoned.remove(group)
        return len(gone)


def find_groups(cgroup: str | None = None, mountinfo: str | None = None) -> ControlGroups:
    """What of this machine's control groups can be used, found by making one.

    The arguments are the texts of ``/proc/self/cgroup`` and ``/proc/self/mountinfo``. Raises ``OSError`` for an
    error that passes: it is no reason to do without them.
    """
    cgroup = _own(Path("/proc/self/cgroup")) if cgroup is None else cgroup
    mountinfo = _own(Path("/proc/self/mountinfo")) if mountinfo is None else mountinfo
    return ControlGroups(chosen(candidates(cgroup, mountinfo), _takes))


def chosen(places: Iterable[Place], takes: Callable[[Place], bool]) -> tuple[Place, ...]:
    """The first for each resource that takes groups. All of one tree are one: a process that joined another would
    have left the first."""
    usable: dict[Enforced, Place] = {}
    for place in places:
        elsewhere = any(one.tree == place.tree and one.folder != place.folder for one in usable.values())
        if place.resource not in usable and not elsewhere and takes(place):
            usable[place.resource] = place
    return tuple(usable.values())


def groups_of(pid: int) -> Group:
    """The groups that a process is in, as this machine has them mounted. Raises ``OSError``."""
    found: dict[Enforced, Path] = {}
    for place in candidates(Path(f"/proc/{pid}/cgroup").read_text(), _own(Path("/proc/self/mountinfo"))):
        if (place.folder / "cgroup.procs").exists():
            found.setdefault(place.resource, place.folder)
    return Group(tuple(dict.fromkeys(found.values())))


def everyone(first: ProcessId | None, group: Group) -> tuple[int, ...]:
    """All in the namespace of processes that begins with ``first``, and all in its control groups."""
    inside = {first.pid, *below(first.pid)} if first and alive(first) else set()
    return tuple(sorted({*inside, *group.processes()}))


def candidates(cgroup: str, mountinfo: str) -> Iterator[Place]:
    """Every folder in which groups may be tried: for each tree our own group first, then those above it."""
    lines = [line.split(":", 2) for line in cgroup.splitlines()]
    own = {controller: path for _, controllers, path in lines for controller in controllers.split(",")}
    for version, controllers, root, mount in _trees(mountinfo):
        for controller in controllers:
            path = own.get(controller if version == 1 else "", root)
            for folder in _upwards(mount, root, path):
                resource = _CONTROLLERS[controller]
                yield Place(resource, folder, _LIMITS[version, resource], mount)


def is_ours(folder: Path) -> bool:
    """Whether this can be a group that we made, of which a record says so."""
    return folder.name.startswith(_PREFIX) and (folder / "cgroup.procs").exists()


def kill(folder: Path) -> None:
    """SIGKILL all processes of one group."""
    for pid in _processes(folder):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _trees(mountinfo: str) -> Iterator[tuple[int, list[str], str, Path]]:
    """(version, controllers to try, root, mount point) of each mounted tree."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, mount = before.split(" ")[3:5]
        if kind == "cgroup":
            yield 1, [name for name in _CONTROLLERS if name in options.split(",")], root, Path(mount)
        elif kind == "cgroup2":
            yield 2, list(_CONTROLLERS), root, Path(mount)


def _upwards(mount: Path, root: str, path: str) -> Iterator[Path]:
    """The group's folder and those above it. A container may see its own group as the root of the tree."""
    below = os.path.relpath(path, root)
    folder = mount if below.startswith("..") else mount / below
    while folder != mount:
        yield folder
        folder = folder.parent
    yield mount


def _takes(place: Place) -> bool:
    """Whether a group with limits can be made there."""
    try:
        return ControlGroups((place,)).make(SandboxLimits()).remove()
    except OSError as error:
        if may_pass(error):
            raise
        return False


def _own(file: Path) -> str:
    """What the kernel says of this process; nothing where it does not."""
    try:
        return file.read_text()
    except OSError as error:
        if may_pass(error):
            raise
        return ""


def _limit(folder: Path, place: Place, limits: SandboxLimits) -> None:
    for name, of in place.limits.items():
        file = folder / name
        # Opening it for writing would make a plain file of it where this is no control group.
        if file.exists() or name not in _OPTIONAL:
            with file.open("r+") as opened:
                opened.write(str(of(limits)))


def _remove(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _processes(folder: Path) -> set[int]:
    return {int(pid) for pid in _read(folder / "cgroup.procs").split()}


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _own_name() -> str:
    me = identify(os.getpid())
    if me is None:  # it lives: what hides it from us passes
        raise OSError(errno.EAGAIN, "this process cannot be looked at")
    return f"{me.pid}.{me.started.rpartition('/')[2]}"


def _maker_lives(name: str) -> bool:
    """Of a name that is none of ours nothing is known: it counts as somebody's."""
    pid, _, rest = name.removeprefix(_PREFIX).partition(".")
    maker = identify(int(pid)) if pid.isdigit() else None
    return not pid.isdigit() or (maker is not None and maker.started.rpartition("/")[2] == rest.partition(".")[0])
