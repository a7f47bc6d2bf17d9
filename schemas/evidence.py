"""All that an episode is judged by, collected after the drain."""

from typing import Literal

from schemas.base import Model
from schemas.episode import EpisodeSpec
from schemas.journal import TurnRecord
from schemas.sandbox_facts import SandboxFacts
from schemas.slice import Ending
from schemas.world import DrainReport, Facts

Reading = Literal["committed", "absent", "unknown"]
"""How a call that was in flight at the seal is read. ``absent`` is final; ``unknown`` is never guessed (I2)."""


class FileChange(Model):
    """One difference below ``/work`` between the task's files and the drained sandbox. Digests are of contents;
    empty is absent, or not a file."""

    path: str
    change: Literal["created", "updated", "deleted"]
    kind: Literal["file", "directory", "link"] = "file"
    before: str = ""
    after: str = ""
    size: int = 0
    mode: int = 0


class SandboxEvidence(Model):
    """What the sandbox says, and how its files ended.

    ``changes`` are all differences to the task's files. ``snapshot`` names the manifest of all files, ``packs`` the
    objects with the contents of those that were created or updated. ``skipped`` are things that are not copied.
    ``lost``: the sandbox was lost after the last turn; the files are those kept at its end, operations those that
    it had written down, and of programs nothing is known. ``out_of_memory``: it was lost for want of memory; where
    its files had not been kept, there is no ``snapshot``.
    ``earlier`` is what the incarnations said that were given up while the episode waited, in their order.
    """

    facts: SandboxFacts
    earlier: tuple[SandboxFacts, ...] = ()
    lost: bool = False
    out_of_memory: bool = False
    changes: tuple[FileChange, ...] = ()
    skipped: tuple[str, ...] = ()
    snapshot: str = ""
    packs: tuple[str, ...] = ()


class Evidence(Model):
    """``in_flight`` are the deliveries of the turn that was open at the seal. ``sandbox`` is there for a task with
    commands. ``not_restored`` is what a fork could not take over from its parent."""

    spec: EpisodeSpec
    ending: Ending
    turns: tuple[TurnRecord, ...]
    facts: Facts
    drain: DrainReport
    in_flight: dict[str, Reading] = {}
    sandbox: SandboxEvidence | None = None
    not_restored: tuple[str, ...] = ()
