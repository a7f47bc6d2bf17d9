"""What a drained sandbox says of its episode."""

from typing import Literal, Self

from pydantic import Field, model_validator

from schemas.base import Model
from schemas.sandbox import DriverName, Enforced, Isolation
from schemas.told import (
    MAX_TOLD_COMMANDS,
    MAX_TOLD_CONNECTIONS,
    MAX_TOLD_PROGRAMS,
    MAX_TOLD_READS,
    CommandRecord,
    ConnectionAttempt,
    MarkedRead,
    ProcessRecord,
    Told,
)

MAX_TOLD_TEXT = 48 * 2**20
"""Characters of all texts in the facts of one sandbox."""


class SandboxDrain(Model):
    """What the drain of a sandbox found and ended. ``empty`` is proven by looking, never assumed."""

    found: int = 0
    ended_by_term: int = 0
    ended_by_kill: int = 0
    refused: int = Field(default=0, description="requests that came after the seal, or had not started at it")
    empty: bool = True


class SandboxFacts(Model):
    """What a drained sandbox says of the episode: its operations, programs, environment and refused requests.

    ``watched`` says how programs were seen: each (``every_exec``), or those alive at a look (``snapshots``); then
    nothing is known of connections either. ``unwatched`` are marked files whose reads could not be told of, and
    ``reads_lost`` says that so much was opened that the kernel did not tell all of it. Reads and connections are
    those of all incarnations; the rest is of the last one. ``from_journal``: the supervisor had ended, and this is
    what it had written down, which is nothing of programs.
    """

    driver: DriverName
    incarnation: int
    image: str = Field(default="", description="the id of what it was made of, where it was made of an image")
    isolation: Isolation = "fresh"
    served_before: int = Field(default=0, description="how many other sandboxes it was made of the remains of")
    enforced: tuple[Enforced, ...] = ()
    environment: dict[str, str] = {}
    commands: tuple[CommandRecord, ...] = Field(default=(), max_length=MAX_TOLD_COMMANDS)
    commands_not_kept: int = 0
    processes: tuple[ProcessRecord, ...] = Field(default=(), max_length=MAX_TOLD_PROGRAMS)
    processes_not_kept: int = 0
    watched: Literal["every_exec", "snapshots"] = "snapshots"
    marked_reads: tuple[MarkedRead, ...] = Field(default=(), max_length=MAX_TOLD_READS)
    marked_reads_not_kept: int = 0
    unwatched: tuple[str, ...] = Field(default=(), max_length=MAX_TOLD_READS)
    reads_lost: bool = False
    connections: tuple[ConnectionAttempt, ...] = Field(default=(), max_length=MAX_TOLD_CONNECTIONS)
    connections_not_kept: int = 0
    from_journal: bool = False
    drain: SandboxDrain = SandboxDrain()

    @model_validator(mode="after")
    def _is_bounded(self) -> Self:
        told: tuple[Told, ...] = (*self.commands, *self.processes, *self.marked_reads, *self.connections)
        plain = sum(map(len, (*self.environment, *self.environment.values(), *self.unwatched)))
        if (size := plain + sum(one.characters for one in told)) > MAX_TOLD_TEXT:
            raise ValueError(f"all texts together have {size} characters, of {MAX_TOLD_TEXT}")
        return self
