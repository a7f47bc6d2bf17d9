"""The Docker driver: sandboxes in containers, which belong to the engine and outlive the host that asks them."""

import os
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Lock

import docker
from docker.errors import DockerException

from infra.local.processes import alive
from infra.sandboxes.docker import container as containers
from infra.sandboxes.docker.area import Area
from infra.sandboxes.docker.container import DOOR, ContainerSandbox, Remains
from infra.sandboxes.docker.engine import problem_of
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.places import HOME, LABEL
from infra.sandboxes.docker.supervisors import Supervisors
from infra.sandboxes.threads import in_thread
from infra.sandboxes.users import user_of
from schemas.sandbox import DriverName, Enforced, SandboxOffer, SandboxOrder
from tiltyard.errors import EnvironmentFailed, SandboxUnavailable

START_S, PAUSE_S = 20.0, 0.002
"""How long a supervisor may take to open its door, in seconds, and how often it is looked for."""

ENFORCED: tuple[Enforced, ...] = ("cpu", "memory", "processes", "disk", "file_count", "output", "network", "files")

START_DOCKER = "install Docker (Debian: docker.io) and start it, or set DOCKER_HOST"


class DockerLauncher:
    """Implements ``Launcher``. ``folder`` is for what its sandboxes share, ``images`` are those of the engine.

    Only for root, on the engine's own machine: it mounts what sandboxes write to.
    """

    driver: DriverName = "docker"

    def __init__(self, engine: docker.DockerClient, images: Images, folder: Path, runtime: str = "runc") -> None:
        self._engine, self._images, self._runtime = engine, images, runtime
        self._supervisors, self._home = Supervisors(engine, folder), str(folder)
        self._ours: set[str] = set()
        self._making = Lock()

    def offer(self) -> SandboxOffer:
        """Whether the engine answers, has the runtime, and may be given mounts of ours."""
        if os.geteuid() != 0:
            return self._refused("only root may mount what its sandboxes write to", "run the stack as root")
        if problem := problem_of(self._engine):
            return self._refused(f"no engine answers: {problem}", START_DOCKER)
        runtimes = self._engine.info()["Runtimes"]
        if self._runtime not in runtimes:
            known = ", ".join(sorted(runtimes))
            return self._refused(f"the engine has no runtime {self._runtime!r}", f"use one of {known}")
        return SandboxOffer(driver=self.driver, available=True, enforced=ENFORCED)

    async def launch(self, order: SandboxOrder, folder: Path) -> ContainerSandbox:
        return await in_thread(lambda: self._launched(order, folder))

    async def find(self, identity: dict[str, object]) -> ContainerSandbox | None:
        """The sandbox of an earlier host process, if it still runs."""
        remains = Remains.model_validate(identity)
        first = remains.first
        if first is None or not alive(first):
            return None
        folder = Path(remains.folder)
        self._ours.add(containers.name_of(folder))
        return await in_thread(lambda: self._knocked(remains.container, remains.image, first.pid, folder))

    def sweep(self, identity: dict[str, object]) -> bool:
        """``ctl`` is made before a container is: without it there is none, and no engine need answer."""
        folder = Path(str(identity["folder"]))
        if not (folder / "ctl").exists():
            return _area_of(folder).remove()
        return containers.remove(self._engine, containers.name_of(folder)) and _area_of(folder).remove()

    def strays(self) -> int:
        """Containers with the label of this folder that are none of ours, as after a crash before the record."""
        labels = [f"{LABEL}=sandbox", f"{HOME}={self._home}"]
        try:
            listed = self._engine.api.containers(all=True, filters={"label": labels})
        except (DockerException, OSError) as error:
            raise EnvironmentFailed(f"the engine does not say which containers there are: {error}") from error
        names = [one["Names"][0].lstrip("/") for one in listed if one["Names"]]
        return sum(containers.remove(self._engine, name) for name in names if name not in self._ours)

    def close(self) -> None:
        """Hang up. The containers stay."""
        self._engine.close()

    def _launched(self, order: SandboxOrder, folder: Path) -> ContainerSandbox:
        with self._making:  # whoever comes meanwhile needs the same
            try:
                record = self._images.get(order.image)
            except EnvironmentFailed as error:  # no trial can wait for what may never be there
                raise SandboxUnavailable(f"{error}; name another image in the task's sandbox") from error
            supervisor = self._supervisors.of(record.id)
        area = _area_of(folder)
        labels = {
            HOME: self._home,
            "tiltyard.owner": order.owner.workflow_id,
            "tiltyard.episode": order.episode_id,
            "tiltyard.incarnation": str(order.incarnation),
        }
        (folder / "ctl").mkdir(mode=0o700)
        with ExitStack() as undo:
            self._ours.add(containers.name_of(folder))
            undo.callback(self._ours.discard, containers.name_of(folder))
            undo.callback(area.remove)
            places = area.prepare()
            undo.callback(containers.remove, self._engine, containers.name_of(folder))
            try:
                made = containers.create(
                    self._engine, folder, record.id, supervisor, places, order.limits, labels, self._runtime
                )
                made.start()
                area.fill(order.limits)
                about = containers.find(self._engine, containers.name_of(folder)) or {}
            except (DockerException, OSError) as error:
                raise EnvironmentFailed(f"the container did not start: {error}") from error
            sandbox = self._knocked(about["Id"], record.id, about["State"]["Pid"], folder)
            undo.enter_context(sandbox.control)
            if self._runtime == "runc":  # others have no mounts of this kernel's
                containers.close_from_outside(about["State"]["Pid"])
            undo.pop_all()
            return sandbox

    def _knocked(self, container: str, image: str, first: int, folder: Path) -> ContainerSandbox:
        """The sandbox, once its supervisor has opened. Raises ``EnvironmentFailed``."""
        control = _knock(folder / "ctl", lambda: Path(f"/proc/{first}").exists())
        return ContainerSandbox(self._engine, container, image, first, _area_of(folder), control, folder)

    def _refused(self, problem: str, fix: str) -> SandboxOffer:
        return SandboxOffer(driver=self.driver, available=False, problem=problem, fix=fix)


def _area_of(folder: Path) -> Area:
    return Area(folder / "places", user_of(folder))


def _knock(folder: Path, lives: Callable[[], bool]) -> socket.socket:
    """A connection with the supervisor whose door is in ``folder``."""
    until = time.monotonic() + START_S
    door = socket.socket(socket.AF_UNIX)
    # By a descriptor of the folder: the path of a socket has no more than 107 bytes.
    inside = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            try:
                door.connect(f"/proc/self/fd/{inside}/{DOOR}")
                return door
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > until or not lives():
                    door.close()
                    raise EnvironmentFailed("the supervisor of a container did not open its door") from None
                time.sleep(PAUSE_S)
    finally:
        os.close(inside)
