"""One container as the engine has it: made, started, removed, and closed where the engine cannot close it."""

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException, NotFound
from docker.types import LogConfig

from infra.sandboxes.cgroups import PERIOD_US, QUOTA_US
from infra.sandboxes.compiled import NAME, PLACE
from infra.sandboxes.docker.door import DOOR
from infra.sandboxes.docker.engine import NoAnswer
from infra.sandboxes.docker.gvisor import is_gvisor, tasks_of
from infra.sandboxes.docker.member import Member
from infra.sandboxes.docker.places import LABEL, etc_of
from infra.sandboxes.docker.profile import profile
from infra.sandboxes.docker.supervisors import PYTHON
from infra.sandboxes.mounts import as_seen_by, close_devices, cover_for_reading, limit_terminals
from infra.sandboxes.users import user_of

CONTROL = Path("/ctl")
"""Where a container has its door and its journals: a folder that is root's, and that commands cannot enter."""

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}

SYSCTLS = {
    "net.ipv4.tcp_max_tw_buckets": "0",
    "net.ipv4.tcp_no_metrics_save": "1",
    "net.ipv4.tcp_fastopen": "0",
    "net.ipv4.ip_unprivileged_port_start": "0",
}
"""A closed connection would keep its port for a minute, and the next sandbox of the container could not have it.
The kernel would remember whom somebody spoke to, and tell the next sandbox, too. And whoever is in it may listen on
any port: worlds are reached at one that elsewhere takes a right."""

COVERED = ("/dev/mqueue", "/sys/fs/cgroup")
"""Empty folders instead of what Docker mounts there: a queue that is made by a file outlives its maker, and control
groups tell how much the sandboxes before have used at most."""


def create(engine: docker.DockerClient, member: Member, labels: Mapping[str, str]) -> None:
    """A container that is not started. Raises ``DockerException``, and ``OSError``."""
    program = [PYTHON, "-I", "-S", str(PLACE / NAME), str(CONTROL / DOOR), str(CONTROL / member.journal)]
    engine.api.create_container(
        member.kind.image,
        program,
        name=member.name,
        labels={LABEL: "sandbox", **labels},
        user="0:0",
        working_dir="/",
        hostname="sandbox",
        environment=ENVIRONMENT,
        host_config=engine.api.create_host_config(
            **_held(member), runtime=member.kind.runtime, binds=_bound(member)
        ),
    )


def _held(member: Member) -> dict[str, Any]:
    """What holds it."""
    processes = member.kind.processes
    return {
        "network_mode": "none",
        "ipc_mode": "private",
        "cgroupns": "private",
        "read_only": True,
        "cap_drop": ["ALL"],
        "cap_add": ["SETUID", "SETGID", "KILL"],
        "security_opt": ["no-new-privileges", f"seccomp={profile(platform.machine())}"],
        "pids_limit": tasks_of(processes) if is_gvisor(member.kind.runtime) else processes,
        "mem_limit": member.kind.memory_bytes,
        "memswap_limit": member.kind.memory_bytes,
        "cpu_period": PERIOD_US,
        "cpu_quota": QUOTA_US,
        "log_config": LogConfig(type=LogConfig.types.NONE),
        "init": False,
        "sysctls": SYSCTLS,
        "tmpfs": dict.fromkeys(COVERED, "ro,size=4k"),
    }


def _bound(member: Member) -> dict[str, Mapping[str, str]]:
    """What it sees of the host, by path."""
    bound: dict[str, Mapping[str, str]] = {
        str(path): {"bind": place, "mode": "rslave"} for place, path in member.area.prepare().items()
    }
    bound[str(member.control)] = {"bind": str(CONTROL), "mode": "rw"}
    bound[str(member.kind.supervisor)] = {"bind": str(PLACE), "mode": "ro"}
    for name, text in etc_of(user_of(member.folder)).items():
        bound[_written(member.folder / "etc" / name, text)] = {"bind": f"/etc/{name}", "mode": "ro"}
    return bound


def _written(file: Path, text: str) -> str:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o644)
    return str(file)


def start(engine: docker.DockerClient, name: str) -> int:
    """Start it; its first process, by its number out here. Raises ``DockerException``."""
    engine.api.start(name)
    said = engine.api.inspect_container(name)
    try:
        return int(said["State"]["Pid"])
    except (LookupError, TypeError, ValueError) as error:
        raise NoAnswer(f"the engine does not say which process is the first of {name}: {error!r}") from error


def close_from_outside(first: int) -> None:
    """What the engine cannot be told of the mounts of a container, by the number of its first process.

    In ``/proc`` a command could say that the supervisor is to be killed before it for want of memory. So it is for
    reading only, but for the supervisor, which has opened it by now. And in ``/dev`` it could leave times that the
    next sandbox reads. Raises ``OSError``.
    """

    def close() -> None:
        cover_for_reading(Path("/proc"))
        limit_terminals()
        close_devices()

    as_seen_by(first, close)


def remove(engine: docker.DockerClient, name: str) -> bool:
    """Remove a container, whatever state it is in; whether it is gone. Again: nothing happens."""
    try:
        engine.api.remove_container(name, force=True, v=True)
    except NotFound:
        return True
    except (DockerException, OSError):
        return False
    return True
