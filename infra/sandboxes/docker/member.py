"""What is known of one container on disk, written before anything is done with it.

A container has a folder of its own: it may be there before a sandbox is, and serve one after the other.
"""

import os
import shutil
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from infra.local.processes import ProcessId, alive
from infra.local.state import write_atomically
from infra.sandboxes.cgroups import Group, everyone
from infra.sandboxes.docker.area import Area
from infra.sandboxes.users import user_of
from schemas.base import Model
from schemas.sandbox import SandboxLimits

NAME_BYTES = 8
"""Of a folder's name, and so of a container's."""

RECORD, CONTROL = "member.json", "ctl"

PREFIX = "tiltyard-"
"""How names of containers begin; the rest is that of their folder."""

LINK = "container"
"""In a sandbox's folder: the way to the folder of the container that serves it."""


class Kind(Model):
    """What a container cannot change any more: those of one kind can stand in for each other.

    ``supervisor`` is the folder of the program, ``memory_bytes`` and ``processes`` are the container's limits.
    ``places`` is there where its places must be mounted before it starts, and then in these sizes.
    """

    image: str
    supervisor: Path
    memory_bytes: int
    processes: int
    runtime: str
    places: SandboxLimits | None = None


class Member(Model):
    """One container. ``serves`` is the folder of the sandbox that it is, or is about to be; empty for nobody's.

    ``served`` counts the sandboxes that it was before. ``born`` is in seconds of the Unix epoch. ``pristine`` are
    digests of what it looks like before anybody uses it. ``memory_kills`` were before it became this sandbox.
    """

    folder: Path
    kind: Kind
    state: Literal["making", "idle", "serving", "resetting"] = "making"
    serves: str = ""
    served: int = 0
    born: float
    first: ProcessId | None = None
    groups: tuple[Path, ...] = ()
    pristine: dict[str, str] = Field(default_factory=dict)
    memory_kills: int = 0

    @property
    def name(self) -> str:
        """Its container's name, known before it is made, so that it is never lost sight of."""
        return name_of(self.folder)

    @property
    def control(self) -> Path:
        """Where its door and its journals are, on the host."""
        return self.folder / CONTROL

    @property
    def group(self) -> Group:
        return Group(self.groups)

    @property
    def area(self) -> Area:
        return area_of(self.folder)

    @property
    def lives(self) -> bool:
        return self.first is not None and alive(self.first)

    @property
    def processes(self) -> tuple[int, ...]:
        """All in it, by their numbers out here."""
        return everyone(self.first, self.group)

    @property
    def journal(self) -> str:
        """The name of the journal of the sandbox that it is."""
        return journal_of(self.served)

    def now(self, **changes: object) -> "Member":
        """The same with changes, written down. Raises ``OSError``."""
        changed = Member.model_validate({**self.model_dump(), **changes})
        write(changed)
        return changed


def name_of(folder: Path) -> str:
    return PREFIX + folder.name


def journal_of(served: int) -> str:
    return f"journal-{served}"


def area_of(folder: Path) -> Area:
    return Area(folder / "places", user_of(folder))


def write(member: Member) -> None:
    """Keep the record. Raises ``OSError``."""
    member.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(member.folder / RECORD, member.model_dump_json())


def read(folder: Path) -> Member | None:
    """The record in a folder; ``None`` for none that can be read."""
    try:
        return Member.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        return None


def may_be_one(folder: Path) -> bool:
    """Whether a container's folder can have this path: it is absolute and ends in hexadecimal digits."""
    digits = set(folder.name) <= set(string.hexdigits) and len(folder.name) == 2 * NAME_BYTES
    return digits and folder.is_absolute() and ".." not in folder.parts


def folders(root: Path) -> Iterator[Path]:
    """Those of all containers below ``root``, whatever is in them."""
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if folder.is_dir() and not folder.is_symlink():
            yield folder


def forget(folder: Path) -> bool:
    """Remove its folder; whether it is gone. Raises ``ValueError`` for a path that depends on where one stands."""
    if not folder.is_absolute() or ".." in folder.parts:
        raise ValueError(f"no folder of a container: {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def link(sandbox: Path, folder: Path) -> None:
    """Say which container a sandbox has, before it has it. Raises ``OSError``."""
    sandbox.mkdir(parents=True, exist_ok=True, mode=0o700)
    (sandbox / LINK).unlink(missing_ok=True)
    (sandbox / LINK).symlink_to(folder)


def linked(sandbox: Path) -> Path | None:
    """The folder of the container that a sandbox has, or had; ``None`` where it was never to have one."""
    try:
        return Path(os.readlink(sandbox / LINK))
    except OSError:
        return None
