"""The containers of one data folder: made, ended, and found where nobody has them any more."""

import logging
import os
import secrets
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import docker
from docker.errors import DockerException, NotFound

from infra.local.processes import identify
from infra.sandboxes.cgroups import groups_of
from infra.sandboxes.docker import member as members
from infra.sandboxes.docker.container import CONTROL, close_from_outside, create, remove, start
from infra.sandboxes.docker.door import knock_at_nobodys
from infra.sandboxes.docker.gvisor import is_gvisor
from infra.sandboxes.docker.member import Kind, Member
from infra.sandboxes.docker.places import FOLDER, LABEL
from infra.sandboxes.docker.pristine import look
from infra.sandboxes.looking import in_time
from tiltyard.errors import EnvironmentFailed

log = logging.getLogger(__name__)

NOT_TOLD = (DockerException, OSError, LookupError, TypeError, ValueError)
"""What asking an engine for containers ends with: it failed, or what it said is no list of them."""


class Containers:
    """Those of one folder, ``home``. It knows which of them somebody has: whoever has none is a stray."""

    def __init__(self, engine: docker.DockerClient, home: Path) -> None:
        self._engine, self._home = engine, home.resolve()
        self._had: set[Path] = set()

    def make(self, kind: Kind, labels: Mapping[str, str] | None = None) -> Member:
        """One that runs and is nobody's. Raises ``EnvironmentFailed`` and ``OSError``.

        It is written down before it is made: when this process dies meanwhile, it is a stray.
        """
        folder = self._home / secrets.token_hex(members.NAME_BYTES)
        self._had.add(folder)
        with ExitStack() as undo:
            undo.callback(self.end, folder)
            member = Member(folder=folder, kind=kind, born=time.time())
            members.write(member)
            member.control.mkdir(mode=0o700)
            try:
                create(self._engine, member, {**(labels or {}), FOLDER: str(folder)})
                if kind.places is not None:
                    member.area.fill(kind.places)
                member = _opened(member, start(self._engine, member.name))
            except DockerException as error:
                raise EnvironmentFailed(f"the container did not start: {error}") from error
            undo.pop_all()
            return member

    def has(self, folder: Path) -> None:
        """Somebody has the container of this folder again."""
        self._had.add(folder)

    def end(self, folder: Path) -> bool:
        """End a container with all that is in it, and forget it; whether nothing is left. Again: nothing happens.

        The kernel does not let others outlive the first process. ``ctl`` is made before a container is: without it
        there is none, and no engine need answer. Whoever asks for an end has it no more: what is left is a stray.
        """
        self._had.add(folder)  # while it is ended here no sweep ends it, too
        try:
            return self._ended(folder)
        finally:
            self._had.discard(folder)

    def _ended(self, folder: Path) -> bool:
        member = members.read(folder)
        if member is not None and member.first is not None and member.lives:
            with suppress(ProcessLookupError):
                os.kill(member.first.pid, signal.SIGKILL)
        return (
            (not (folder / members.CONTROL).exists() or remove(self._engine, members.name_of(folder)))
            and (member is None or in_time(lambda: not member.processes))
            and members.area_of(folder).remove()
            and members.forget(folder)
        )

    def of(self, sandbox: Path) -> Path | None:
        """The folder of the container that a sandbox has, or had; ``None`` where it was never to have one of these:
        a link may say anything, and what it names is ended and removed."""
        folder = members.linked(sandbox)
        return folder if folder is not None and self._is_here(folder) else None

    def _is_here(self, folder: Path) -> bool:
        return folder.parent == self._home and folder.name not in ("", "..")

    def strays(self) -> int:
        """End what nobody has; how many were ended. Raises ``EnvironmentFailed`` when the engine does not answer.

        That is whatever this folder has beside what was made and not ended here; and any container of ours, of
        whichever folder, whose own is gone: nobody can ask it any more.
        """
        had = set(self._had)
        try:
            listed = self._listed()
            found = {**dict.fromkeys(members.folders(self._home), ""), **listed}
        except NOT_TOLD as error:
            raise EnvironmentFailed(f"the engine does not say which containers there are: {error}") from error
        left = sorted(found.keys() - had - self._had)
        return sum(self._end_stray(folder, found[folder]) for folder in left)

    def _listed(self) -> dict[Path, str]:
        """Containers of this home, and those whose folder has been removed: their ids by their folders."""
        listed = self._engine.api.containers(all=True, filters={"label": [f"{LABEL}=sandbox", FOLDER]})
        found = {Path(one["Labels"][FOLDER]): str(one["Id"]) for one in listed}
        return {folder: one for folder, one in found.items() if self._is_ours(folder, one)}

    def _is_ours(self, folder: Path, container: str) -> bool:
        """A label may say anything, and what it names is removed."""
        if not members.may_be_one(folder):
            return False
        gone = not (folder / members.CONTROL).exists()
        return folder.parent == self._home or (gone and self._has_lost_its_folder(container))

    def _has_lost_its_folder(self, container: str) -> bool:
        """As the container has it: here the folder of another may be out of sight, in a mount namespace of its own.
        One that does not run has nothing to lose."""
        try:
            first = self._engine.api.inspect_container(container)["State"]["Pid"]
            mounts = [line.split() for line in Path(f"/proc/{first}/mountinfo").read_text().splitlines()]
        except (NotFound, FileNotFoundError, ProcessLookupError):
            return True
        return any(at == str(CONTROL) and root.endswith("//deleted") for _, _, _, root, at, *_ in mounts)

    def _end_stray(self, folder: Path, container: str) -> bool:
        """By its id, where the engine told one: a container may have lost its name."""
        log.warning("the container %s is nobody's: it is ended", members.name_of(folder))
        return (not container or remove(self._engine, container)) and self.end(folder)


def _opened(member: Member, first: int) -> Member:
    """It, once its supervisor has opened, and it was looked at. Raises ``EnvironmentFailed``, ``OSError``."""
    with knock_at_nobodys(member.control, lambda: Path(f"/proc/{first}").exists()):
        known = member.now(first=identify(first), groups=groups_of(first).folders)
        if is_gvisor(member.kind.runtime):  # it has a kernel of its own, that nobody looks into
            return known.now(state="idle")
        close_from_outside(first)
        return known.now(state="idle", pristine=look(known))
