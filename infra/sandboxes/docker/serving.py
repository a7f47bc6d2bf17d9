"""A container that serves a sandbox, and how it is made to be nobody's again."""

import logging
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from infra.sandboxes.docker.container import CONTROL
from infra.sandboxes.docker.containers import Containers
from infra.sandboxes.docker.door import knock_at_nobodys
from infra.sandboxes.docker.gvisor import guests, is_gvisor
from infra.sandboxes.docker.member import Member, journal_of
from infra.sandboxes.docker.places import HOSTS
from infra.sandboxes.docker.pristine import require_pristine
from infra.sandboxes.launching import MadeOf, Renewal
from infra.sandboxes.names import hosts_file
from infra.sandboxes.users import user_of
from schemas.sandbox import WORK, Isolation, SandboxLimits
from tiltyard.errors import EnvironmentFailed, NotPristine

log = logging.getLogger(__name__)


class ContainerSandbox:
    """Implements ``Launched``. ``give`` takes a container back that is nobody's again."""

    def __init__(
        self,
        member: Member,
        control: socket.socket,
        isolation: Isolation,
        containers: Containers,
        give: Callable[[Member], bool],
    ) -> None:
        self.control = control
        self._member, self._containers = member, containers
        self.identity: dict[str, object] = {"folder": member.serves, "isolation": isolation}
        self.made_of = MadeOf(image=member.kind.image, isolation=isolation, served_before=member.served)
        user = user_of(member.folder)
        # That no more than so many processes are of this user is held by the container's control group.
        self.setup: dict[str, object] = {"pid_one": True, "own_user": False, "uid": user, "gid": user, "work": WORK}
        self.journal = member.control / member.journal
        resets = isolation == "reset" and not is_gvisor(member.kind.runtime)
        self.renewal: Renewal | None = Reset(member, give) if resets else None

    def processes(self) -> tuple[int, ...]:
        return guests(self._member) if is_gvisor(self._member.kind.runtime) else self._member.processes

    def memory_kills(self) -> int:
        return self._member.group.memory_kills() - self._member.memory_kills

    def end(self) -> bool:
        return self._containers.end(self._member.folder)


class Reset:
    """Implements ``Renewal``: each step is proven by looking from outside, and the first that is not ends it.

    From before the first step on the record says that it is under way: a container whose host dies meanwhile is
    never used again.
    """

    def __init__(self, member: Member, give: Callable[[Member], bool]) -> None:
        self._member, self._give = member, give

    def begin(self) -> dict[str, object]:
        """See that nobody but the supervisor is there. What it is to be asked with."""
        self._member = self._member.now(state="resetting")
        self._require_alone()
        return {"journal": str(CONTROL / journal_of(self._member.served + 1))}

    def finish(self) -> bool:
        """Take away what the sandbox could write to, and compare what is left with what was before it."""
        try:
            self._require_alone()
            self._member.area.empty()
            (self._member.control / self._member.journal).unlink()
            renewed = self._member.now(served=self._member.served + 1)
            with knock_at_nobodys(renewed.control, lambda: renewed.lives):
                require_pristine(renewed)
            renewed = renewed.now(state="idle", serves="")
        except (EnvironmentFailed, OSError) as error:
            log.warning("the container %s is not used again: %s", self._member.name, error)
            return False
        return self._give(renewed)

    def _require_alone(self) -> None:
        if self._member.first is None or self._member.processes != (self._member.first.pid,):
            raise NotPristine("somebody is there beside its supervisor")


def name_services(member: Member, services: Sequence[str]) -> None:
    """Let these names be found in it, and no others. The file is the one that is bound there: it is written anew,
    and not replaced. Raises ``OSError``."""
    (member.folder / "etc" / HOSTS).write_text(hosts_file(services))


def fill(member: Member, limits: SandboxLimits) -> None:
    """Give it fresh places of these sizes, and see that it has them. Raises ``NotPristine``, and ``OSError``."""
    assert member.first is not None, "it has been started"
    if member.kind.places is not None:
        return
    member.area.fill(limits)
    if unlike := member.area.unlike(Path(f"/proc/{member.first.pid}/root"), limits):
        raise NotPristine(f"not fresh and empty: {', '.join(unlike)}")
