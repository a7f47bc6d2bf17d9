"""One container: how it is made, looked at from outside, and ended."""

import os
import platform
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException, NotFound
from docker.models.containers import Container
from docker.types import LogConfig

from infra.local.processes import ProcessId, alive, identify
from infra.sandboxes.cgroups import everyone, groups_of, memory_of, processes_of
from infra.sandboxes.compiled import NAME, PLACE
from infra.sandboxes.docker.area import Area
from infra.sandboxes.docker.places import LABEL, etc_of
from infra.sandboxes.docker.profile import profile
from infra.sandboxes.looking import in_time
from infra.sandboxes.mounts import as_seen_by, cover_for_reading, limit_terminals
from infra.sandboxes.users import user_of
from schemas.base import Model, sha256
from schemas.sandbox import WORK, SandboxLimits

CONTROL = Path("/ctl")
"""Where a container has its control socket and journal: a folder that is root's, and that commands cannot enter."""

DOOR, JOURNAL = "door", "journal"


class Remains(Model):
    """What a later process finds a container by. ``groups`` are its control groups."""

    folder: str
    container: str = ""
    image: str = ""
    first: ProcessId | None = None
    groups: tuple[str, ...] = ()


def name_of(folder: Path) -> str:
    """The container of a sandbox's folder: known before it is made, so that one is never lost sight of."""
    return f"tiltyard-{sha256(os.fsencode(folder))[7:31]}"


TERMINALS = 64
"""How many a sandbox may open: the kernel has some thousands for all of them."""


def create(
    engine: docker.DockerClient,
    folder: Path,
    image: str,
    supervisor: Path,
    places: Mapping[str, Path],
    limits: SandboxLimits,
    labels: Mapping[str, str],
    runtime: str,
) -> Container:
    """A container that is not started; ``folder`` is the sandbox's own. Raises ``DockerException``."""
    bound = {str(path): {"bind": place, "mode": "rslave"} for place, path in places.items()}
    bound[str(folder / "ctl")] = {"bind": str(CONTROL), "mode": "rw"}
    bound[str(supervisor)] = {"bind": str(PLACE), "mode": "ro"}
    for name, text in etc_of(user_of(folder)).items():
        bound[_written(folder / "etc" / name, text)] = {"bind": f"/etc/{name}", "mode": "ro"}
    memory = memory_of(limits)
    return engine.containers.create(
        image,
        ["/usr/bin/python3", "-I", "-S", str(PLACE / NAME), str(CONTROL / DOOR), str(CONTROL / JOURNAL)],
        name=name_of(folder),
        labels={LABEL: "sandbox", **labels},
        runtime=runtime,
        user="0:0",
        working_dir="/",
        hostname="sandbox",
        environment={"PATH": "/usr/local/bin:/usr/bin:/bin"},
        network_mode="none",
        ipc_mode="private",
        cgroupns="private",
        read_only=True,
        cap_drop=["ALL"],
        cap_add=["SETUID", "SETGID", "KILL"],
        security_opt=["no-new-privileges", f"seccomp={profile(platform.machine())}"],
        pids_limit=processes_of(limits),
        mem_limit=memory,
        memswap_limit=memory,
        log_config=LogConfig(type=LogConfig.types.NONE),
        init=False,
        tmpfs={"/dev/mqueue": "ro,size=4k"},  # a queue is made by a file there, too, and outlives its maker
        volumes=bound,
    )


def _written(file: Path, text: str) -> str:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o644)
    return str(file)


class ContainerSandbox:
    """Implements ``Launched`` for a container that runs."""

    def __init__(
        self,
        engine: docker.DockerClient,
        container: str,
        image: str,
        first: int,
        area: Area,
        control: socket.socket,
        folder: Path,
    ) -> None:
        self.control = control
        self._engine, self._container, self._area = engine, container, area
        self._first = identify(first)
        self._group = groups_of(first)
        remains = Remains(
            folder=str(folder),
            container=container,
            image=image,
            first=self._first,
            groups=tuple(map(str, self._group.folders)),
        )
        self.identity: dict[str, object] = remains.model_dump(mode="json")
        user = user_of(folder)
        # That no more than so many processes are of this user is held by the container's control group.
        self.setup: dict[str, object] = {"pid_one": True, "own_user": False, "uid": user, "gid": user, "work": WORK}

    def processes(self) -> tuple[int, ...]:
        return everyone(self._first, self._group)

    def memory_kills(self) -> int:
        return self._group.memory_kills()

    def end(self) -> bool:
        """Kill the first process, which the kernel does not let the others survive, and remove the container."""
        if self._first and alive(self._first):
            with suppress(ProcessLookupError):
                os.kill(self._first.pid, signal.SIGKILL)
        return (
            remove(self._engine, self._container) and in_time(lambda: not self.processes()) and self._area.remove()
        )


def close_from_outside(first: int) -> None:
    """What the engine cannot be told of the mounts of a container, by the number of its first process.

    In ``/proc`` a command could say that the supervisor is to be killed before it for want of memory. So it is for
    reading only, but for the supervisor, which has opened it by now. Raises ``OSError``.
    """

    def close() -> None:
        cover_for_reading(Path("/proc"))
        limit_terminals(Path("/dev/pts"), TERMINALS)

    as_seen_by(first, close)


def remove(engine: docker.DockerClient, container: str) -> bool:
    """Remove a container, whatever state it is in; whether it is gone. Again: nothing happens."""
    try:
        engine.api.remove_container(container, force=True, v=True)
    except NotFound:
        return True
    except DockerException:
        return False
    return True


def find(engine: docker.DockerClient, name: str) -> dict[str, Any] | None:
    """What the engine says of a container; ``None`` where there is none."""
    try:
        return dict(engine.api.inspect_container(name))
    except NotFound:
        return None
