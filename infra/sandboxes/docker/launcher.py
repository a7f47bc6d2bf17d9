"""The Docker driver: sandboxes in containers, which belong to the engine and outlive the host that asks them."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar, get_args

from docker.errors import DockerException

from infra.sandboxes.cgroups import memory_of, processes_of
from infra.sandboxes.docker import member as members
from infra.sandboxes.docker.containers import Containers
from infra.sandboxes.docker.door import knock, knock_at_nobodys
from infra.sandboxes.docker.engine import Engine, problem_of
from infra.sandboxes.docker.gvisor import ENFORCED_BY_GVISOR, FIX, SEES_IN_GVISOR, is_gvisor, is_set_up
from infra.sandboxes.docker.images import ImageRecord, Images
from infra.sandboxes.docker.member import Kind, Member
from infra.sandboxes.docker.passing import end_left
from infra.sandboxes.docker.places import CONTAINERS
from infra.sandboxes.docker.pool import Keeper, Need, Pool
from infra.sandboxes.docker.serving import ContainerSandbox, fill, name_services
from infra.sandboxes.docker.supervisors import Supervisors
from infra.sandboxes.seeing import told_here
from infra.sandboxes.threads import in_thread
from schemas.sandbox import DriverName, Enforced, Isolation, SandboxOffer, SandboxOrder, services_of
from tiltyard.errors import EnvironmentFailed

log = logging.getLogger(__name__)

T = TypeVar("T")

LAUNCHES = 8
"""So many are made at once. They have threads of their own: an engine that takes its time holds up nothing else."""

CLOSE_S = 20.0
"""How long the engine is asked for ends when the driver is closed, in seconds: its host is to end soon."""

ENFORCED: tuple[Enforced, ...] = get_args(Enforced)

SHIMS = "io.containerd."
"""Names that the engine lists beside those of its runtimes begin so: what starts runtimes for it."""

START_DOCKER = "install Docker (Debian: docker.io) and start it, or set DOCKER_HOST"


class DockerLauncher:
    """Implements ``Launcher``. ``folder`` is for what its sandboxes share and for its containers, ``images`` are
    those of the engine. At most ``warm`` containers wait for sandboxes; 0: each is made when it is needed.

    Only for root, on the engine's own machine: it mounts what sandboxes write to.
    """

    driver: DriverName = "docker"

    def __init__(
        self,
        engine: Engine,
        images: Images,
        folder: Path,
        runtime: str = "runc",
        warm: int = 0,
        supervisors: Supervisors | None = None,
    ) -> None:
        self._engine, self._images, self._folder, self._runtime = engine, images, folder, runtime
        self._supervisors = supervisors or Supervisors(engine, folder)
        self._containers = Containers(engine, folder / CONTAINERS)
        self.pool = Pool(self._containers.make, self._containers.end, 0 if is_gvisor(runtime) else warm)
        self._known: dict[str, Path] = {}  # the supervisors of images that the engine has
        self._keeper = Keeper(self.pool)
        self._getting = asyncio.Lock()
        self._threads = ThreadPoolExecutor(LAUNCHES, thread_name_prefix="docker")

    def offer(self) -> SandboxOffer:
        """Whether the engine answers, has the runtime, and may be given mounts of ours.

        Raises ``EnvironmentFailed`` when there is one that does not answer as it should.
        """
        if os.geteuid() != 0:
            return self._refused("only root may mount what its sandboxes write to", "run the stack as root")
        if problem := problem_of(self._engine):
            return self._refused(f"no engine answers: {problem}", START_DOCKER)
        try:
            runtimes = self._engine.info()["Runtimes"]
        except (DockerException, OSError, LookupError, TypeError) as error:
            raise EnvironmentFailed(f"the engine does not say which runtimes it has: {error}") from error
        if self._runtime not in runtimes:
            known = ", ".join(sorted(name for name in runtimes if not name.startswith(SHIMS)))
            fix = f"set TILTYARD_DOCKER_RUNTIME to one of {known}"
            return self._refused(f"the engine has no runtime {self._runtime!r}", fix)
        if is_gvisor(self._runtime) and not is_set_up(runtimes[self._runtime]):
            return self._refused(f"the engine does not start {self._runtime!r} as sandboxes need it", FIX)
        if is_gvisor(self._runtime):
            return SandboxOffer(
                driver=self.driver, available=True, enforced=ENFORCED_BY_GVISOR, sees=SEES_IN_GVISOR
            )
        sees = (*told_here(), "control_groups")
        return SandboxOffer(driver=self.driver, available=True, enforced=ENFORCED, sees=sees)

    async def launch(self, order: SandboxOrder, folder: Path) -> ContainerSandbox:
        """Images are got one at a time: whoever comes meanwhile mostly needs the same."""
        if (kind := await self._asked(lambda: self._known_kind(order))) is None:
            async with self._getting:
                kind = await self._asked(lambda: self._known_kind(order) or self._new_kind(order))
        return await self._asked(lambda: self._launched(kind, order, folder))

    async def find(self, identity: dict[str, object]) -> ContainerSandbox | None:
        """The sandbox of an earlier host process, if it still runs, and was not about to be reset."""
        sandbox = str(identity["folder"])
        folder = self._containers.of(Path(sandbox))
        member = members.read(folder) if folder else None
        if member is None or member.serves != sandbox or member.state != "serving":
            return None
        if not member.lives:
            return None
        self._containers.has(member.folder)
        isolation: Isolation = "reset" if identity.get("isolation") == "reset" else "fresh"
        control = await in_thread(lambda: knock(member.control, lambda: member.lives))
        return self._sandbox(member, control, isolation)

    def sweep(self, identity: dict[str, object]) -> bool:
        """A container that has become another's, or waits, is left alone."""
        sandbox = Path(str(identity["folder"]))
        folder = self._containers.of(sandbox)
        member = members.read(folder) if folder else None
        if folder is None or (member is not None and member.serves != str(sandbox)):
            return True
        return self._containers.end(folder)

    def strays(self) -> int:
        """Containers of this folder that nobody has, idle ones of an earlier process too; and those of data folders
        that are gone. And those in which an earlier process compiled a supervisor."""
        return self._containers.strays() + end_left(self._engine, self._folder)

    def close(self, limit_s: float = CLOSE_S) -> None:
        """End those that wait, and what an earlier process left, as far as the engine does it within so many
        seconds; then hang up. Those that serve stay."""
        self._engine.end_within(limit_s)
        self._keeper.close(limit_s)
        try:
            self.strays()
        except EnvironmentFailed as error:
            log.warning("what may be left of containers is left to the next process: %s", error)
        finally:
            self._threads.shutdown(wait=False)
            self._engine.close()

    async def _asked(self, work: Callable[[], T]) -> T:
        """What is asked of the engine, in a thread."""
        try:
            return await in_thread(work, self._threads)
        except DockerException as error:
            raise EnvironmentFailed(f"the engine failed: {error}") from error

    def _launched(self, kind: Kind, order: SandboxOrder, folder: Path) -> ContainerSandbox:
        """The thread that makes others is woken afterwards: this one does not wait for them."""
        try:
            return self._found_or_made(kind, order, folder)
        finally:
            self._keeper.wake()

    def _found_or_made(self, kind: Kind, order: SandboxOrder, folder: Path) -> ContainerSandbox:
        """In one that waits, or else in one that is made for it."""
        unused = order.isolation == "fresh"
        while (waiting := self.pool.take(Need(kind, unused))) is not None:
            try:
                return self._served(waiting, order, folder)
            except (EnvironmentFailed, OSError) as error:
                log.warning("the container %s waited and cannot be used: %s", waiting.name, error)
        try:
            made = self._containers.make(kind, _labels(order) if unused else {})
        except EnvironmentFailed:
            self._known.pop(kind.image, None)  # the image may be gone
            raise
        return self._served(made, order, folder)

    def _served(self, member: Member, order: SandboxOrder, folder: Path) -> ContainerSandbox:
        """It as this sandbox; it is ended where that cannot be. Raises ``EnvironmentFailed``, ``OSError``."""
        try:
            members.link(folder, member.folder)
            kills = member.group.memory_kills()
            serving = member.now(state="serving", serves=str(folder), memory_kills=kills)
            name_services(serving, services_of(order))
            fill(serving, order.limits)
            return self._sandbox(serving, knock_at_nobodys(serving.control, lambda: serving.lives), order.isolation)
        except BaseException:
            self._containers.end(member.folder)
            raise

    def _sandbox(self, member: Member, control: socket.socket, isolation: Isolation) -> ContainerSandbox:
        return ContainerSandbox(member, control, isolation, self._containers, self.pool.give)

    def _known_kind(self, order: SandboxOrder) -> Kind | None:
        """``None`` where its image must be looked for first."""
        record = self._images.recorded(order.image)
        supervisor = self._known.get(record.id) if record else None
        return self._kind(record, supervisor, order) if record and supervisor else None

    def _new_kind(self, order: SandboxOrder) -> Kind:
        """Raises ``SandboxUnavailable`` where there is no such image, or it cannot be a sandbox's, and
        ``EnvironmentFailed`` where it could not be had this time. Of either only the text is told elsewhere."""
        try:
            record = self._images.get(order.image)
        except EnvironmentFailed as error:
            raise type(error)(f"{error}; {error.fix}".rstrip("; "), fix=error.fix) from error
        supervisor = self._known[record.id] = self._supervisors.of(record.id)
        return self._kind(record, supervisor, order)

    def _kind(self, record: ImageRecord, supervisor: Path, order: SandboxOrder) -> Kind:
        return Kind(
            image=record.id,
            supervisor=supervisor,
            memory_bytes=memory_of(order.limits),
            processes=processes_of(order.limits),
            runtime=self._runtime,
            places=order.limits if is_gvisor(self._runtime) else None,
        )

    def _refused(self, problem: str, fix: str) -> SandboxOffer:
        return SandboxOffer(driver=self.driver, available=False, problem=problem, fix=fix)


def _labels(order: SandboxOrder) -> dict[str, str]:
    """Whose it is, for as long as it is there."""
    return {
        "tiltyard.owner": order.owner.workflow_id,
        "tiltyard.episode": order.episode_id,
        "tiltyard.incarnation": str(order.incarnation),
    }
