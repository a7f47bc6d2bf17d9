"""What a container looks like from outside while it is nobody's, so that a used one can be held against it.

Whatever differs says that something of a sandbox is left. What is not compared, because it only counts on: numbers
of processes, what the loopback interface has carried, and what the control group has used.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from infra.sandboxes.docker.area import PLACES
from infra.sandboxes.docker.ipc import left_behind
from infra.sandboxes.docker.member import Member
from infra.sandboxes.docker.network import remembered
from schemas.base import digest_of
from tiltyard.errors import NotPristine

STATUS = (
    *("Umask:", "Uid:", "Gid:", "Groups:", "Threads:", "SigBlk:", "SigIgn:", "SigCgt:"),
    *("CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:", "Seccomp_filters:"),
)
"""Lines of ``/proc/PID/status`` that do not change by themselves."""

OF_A_NAMESPACE = ("used", "inuse", "tw")
"""What ``/proc/PID/net/sockstat`` counts of one namespace: sockets, those of a protocol, ports that are kept for a
while. The rest is the machine's. The tables of the sockets themselves take long to read."""

NICE = 16
"""Where ``/proc/PID/stat`` has it, counted from after the name."""


def look(member: Member) -> dict[str, str]:
    """Digests of what is there, part by part. Raises ``OSError`` where it cannot be looked at."""
    assert member.first is not None, "it has been started"
    proc = Path(f"/proc/{member.first.pid}")
    return {name: digest_of(part(proc, member)) for name, part in PARTS.items()}


def require_pristine(member: Member) -> None:
    """That it looks as it did before anybody used it. Raises ``NotPristine`` that names what does not."""
    seen = look(member)
    if changed := [name for name in PARTS if seen[name] != member.pristine.get(name)]:
        raise NotPristine(f"not as they were: {', '.join(changed)}")


def _company(proc: Path, member: Member) -> str:
    """Who is there beside the first process, and how many tasks its control group counts, zombies included."""
    others = [pid for pid in member.processes if pid != int(proc.name)]
    counted = [count for group in member.groups for count in _lines(group / "pids.current")]
    below = [one.name for group in member.groups for one in group.iterdir() if one.is_dir()]
    return f"{others} {counted} {below}"


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def _mounts(proc: Path, member: Member) -> str:
    return (proc / "mountinfo").read_text()


def _places(proc: Path, member: Member) -> str:
    """The folders that places are mounted on."""
    found = []
    for place in PLACES:
        folder = proc / "root" / place[1:]
        about = folder.stat()
        found.append((place, sorted(os.listdir(folder)), oct(about.st_mode), about.st_uid, about.st_gid))
    return str(found)


def _control(proc: Path, member: Member) -> str:
    """What is where its door is."""
    return str(sorted("journal" if one == member.journal else one for one in os.listdir(member.control)))


def _open_files(proc: Path, member: Member) -> str:
    """Its journal by another name: each sandbox has one of its own. Sockets by their number."""
    return str(sorted(_targets(proc, member.journal)))


def _targets(proc: Path, journal: str) -> Iterator[str]:
    for one in (proc / "fd").iterdir():
        target = os.readlink(one)
        if target.startswith("socket:"):
            yield "socket"
        elif target.endswith(f"/{journal}"):
            yield "journal"
        else:
            yield target


def _stands(proc: Path, member: Member) -> str:
    return f"{os.readlink(proc / 'cwd')} {os.readlink(proc / 'root')}"


def _limits(proc: Path, member: Member) -> str:
    nice = (proc / "stat").read_text().rpartition(")")[2].split()[NICE]
    return f"{(proc / 'limits').read_text()} nice {nice} oom {(proc / 'oom_score_adj').read_text()}"


def _status(proc: Path, member: Member) -> str:
    lines = (proc / "status").read_text().splitlines()
    return "\n".join(line for line in lines if line.split()[0] in STATUS)


def _sockets(proc: Path, member: Member) -> str:
    """Unix sockets without their numbers, and how many there are of any kind: closed ones count, too."""
    unix = sorted(" ".join(line.split()[3:6] + line.split()[7:]) for line in _lines(proc / "net/unix")[1:])
    return str(
        [*unix, *(_counted(line) for name in ("sockstat", "sockstat6") for line in _lines(proc / "net" / name))]
    )


def _counted(line: str) -> str:
    """Of ``TCP: inuse 0 orphan 0 tw 0 alloc 8 mem 1`` what is of this namespace."""
    protocol, *pairs = line.split()
    counts = dict(zip(pairs[::2], pairs[1::2], strict=True))
    return f"{protocol} {[counts.get(name) for name in OF_A_NAMESPACE]}"


def _ipc(proc: Path, member: Member) -> str:
    return str(left_behind(int(proc.name)))


def _network(proc: Path, member: Member) -> str:
    return str(remembered(int(proc.name)))


def _devices(proc: Path, member: Member) -> str:
    """All that a device tells beside its content: who writes to a terminal changes times even where nobody may."""
    folder = proc / "root/dev"
    return str([_about(one) for one in (folder, *sorted(folder.iterdir()), folder / "pts/ptmx")])


def _about(file: Path) -> tuple[object, ...]:
    about = file.lstat()
    times = about.st_atime_ns, about.st_mtime_ns, about.st_ctime_ns
    return file.name, about.st_mode, about.st_uid, about.st_gid, about.st_rdev, times


PARTS: Mapping[str, Callable[[Path, Member], str]] = {
    "its processes": _company,
    "its mounts": _mounts,
    "its places": _places,
    "its door and journal": _control,
    "open files of its supervisor": _open_files,
    "where its supervisor stands": _stands,
    "limits of its supervisor": _limits,
    "rights of its supervisor": _status,
    "its sockets": _sockets,
    "its queues and shared memory": _ipc,
    "what its network remembers": _network,
    "its devices": _devices,
}
"""What is looked at, and how."""
