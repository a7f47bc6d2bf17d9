"""What the host keeps of each sandbox on disk, written before anything of it is made.

A folder a sandbox: ``record.json`` here, ``journal`` the supervisor's. Its name is made of the sandbox's, which may
hold anything.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError

from infra.local.state import write_atomically
from infra.sandboxes.launching import ITSELF, MadeOf
from infra.sandboxes.testimony import Reached
from schemas.base import Model, sha256
from schemas.sandbox import Enforced, Exposes, SandboxOrder, SandboxRecord, SandboxRef, WorldAccess
from schemas.sandbox_facts import SandboxDrain
from schemas.world import Owner

RECORD, JOURNAL = "record.json", "journal"

NOTHING = Reached()


class Kept(Model):
    """One sandbox as its host knows it.

    ``making``: nobody has been given it yet. ``identity`` is what the driver finds its remains by. ``made_of``
    and ``enforced`` are what it was made of and is held to. ``drain`` is there once it has been drained.
    ``memory_kills`` processes were ended for want of memory before it was lost.
    ``earlier`` is what was reached for in the incarnations before it.
    ``exposes`` are the tools that its programs may call, ``access`` is the lease that their calls belong to.
    """

    ref: SandboxRef
    owner: Owner
    episode_id: str
    state: Literal["making", "live", "sealed", "lost"] = "making"
    identity: dict[str, Any] = Field(default_factory=dict)
    made_of: MadeOf = ITSELF
    enforced: tuple[Enforced, ...] = ()
    drain: SandboxDrain | None = None
    memory_kills: int = 0
    earlier: Reached = Reached()
    exposes: Exposes = Field(default_factory=dict)
    access: WorldAccess | None = None

    @classmethod
    def of(cls, order: SandboxOrder, earlier: Reached = NOTHING) -> Self:
        """The record of a sandbox that is about to be made."""
        return cls(
            ref=ref_of(order),
            owner=order.owner,
            episode_id=order.episode_id,
            exposes=order.exposes,
            earlier=earlier,
        )

    @property
    def told(self) -> SandboxRecord:
        """What is told of it to others."""
        state = "lost" if self.state == "making" else self.state
        return SandboxRecord(ref=self.ref, owner=self.owner, episode_id=self.episode_id, state=state)


def ref_of(order: SandboxOrder) -> SandboxRef:
    """What names the ordered sandbox."""
    return SandboxRef(driver=order.driver, name=order.name, incarnation=order.incarnation)


def folder_of(root: Path, ref: SandboxRef) -> Path:
    """The folder of one sandbox below ``root``."""
    return root / f"{sha256(os.fsencode(ref.name))[7:23]}-{ref.incarnation}"


def write(folder: Path, kept: Kept) -> None:
    """Keep the record; who reads it meanwhile gets the old one or the new one."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(folder / RECORD, kept.model_dump_json(indent=1))


def remove(folder: Path) -> None:
    """Forget a sandbox. Again: nothing happens."""
    shutil.rmtree(folder, ignore_errors=True)


def found(root: Path) -> Iterator[tuple[Path, Kept | None]]:
    """Every sandbox's folder with its record; ``None`` for one that cannot be read."""
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if folder.is_dir() and not folder.is_symlink():
            yield folder, _read(folder)


def counts(root: Path) -> dict[str, int]:
    """How many sandboxes are recorded in each state. Nothing is changed, and no host is asked."""
    return dict(Counter(kept.told.state for _, kept in found(root) if kept))


def _read(folder: Path) -> Kept | None:
    try:
        return Kept.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        return None
