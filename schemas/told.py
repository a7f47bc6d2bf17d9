"""What a sandbox tells of what was done in it: operations, programs, reads of marked files, connections."""

from pydantic import Field

from schemas.base import Model

MAX_TOLD_COMMANDS, MAX_TOLD_PROGRAMS, MAX_TOLD_READS, MAX_TOLD_CONNECTIONS = 10_000, 10_000, 1000, 1000
"""Entries of each kind that the facts of a sandbox hold. What is more is counted."""


class Told(Model):
    """One thing that is told."""

    @property
    def characters(self) -> int:
        """Of all texts in it: sandboxes say how long they are, and are not trusted."""
        texts = (value if isinstance(value, tuple) else (value,) for value in self.__dict__.values())
        return sum(len(text) for each in texts for text in each if isinstance(text, str))


class OutputRecord(Model):
    """One whole output of a command, also of what was not kept: until the command itself had ended."""

    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    total_bytes: int = Field(ge=0)


Moment = float | None
"""Real seconds since the sandbox was set up; ``None`` where that is not known. In no digest."""


class CommandRecord(Told):
    """One operation as the sandbox's own journal has it. Not ``ended``: it was in flight at the drain.

    Long arguments are cut; ``request_digest`` is of the whole request.
    """

    op_id: str
    do: str
    argv: tuple[str, ...] = ()
    path: str = ""
    request_digest: str
    started: bool
    ended: bool
    exit_code: int | None = None
    signal: str = ""
    started_s: Moment = None
    ended_s: Moment = None
    stdout: OutputRecord | None = None
    stderr: OutputRecord | None = None


class ProcessRecord(Told):
    """One program that was started in a sandbox, by whichever command or process.

    ``pid`` and ``parent`` are as seen in the sandbox. ``op_id`` is the operation that it descends from, empty where
    that is not known. ``left`` says that it still ran at the seal: a background child. One ends, too, when its
    process becomes another program.
    """

    pid: int
    parent: int
    argv: tuple[str, ...]
    op_id: str = ""
    left: bool = False
    started_s: Moment = None
    ended_s: Moment = None


class MarkedRead(Told):
    """A marked file was opened in the course of one operation; at least ``opens`` times, and read ``reads`` times.

    ``path`` is the task's, wherever the file lay by then. One that is opened and not read may have been mapped into
    memory, or written to. ``op_id`` is the operation of the process that had it open (``pid``), or where that one
    was not found, the only one that was under way; else it is empty. ``incarnation``: of which sandbox of the
    episode.
    """

    path: str
    op_id: str = ""
    pid: int | None = None
    opens: int = Field(ge=0)
    reads: int = Field(ge=0)
    first_s: Moment = None
    incarnation: int = 0


DNS_PORT = 53
"""Where names are asked for."""


class ConnectionAttempt(Told):
    """Somebody tried to reach an address outside of the sandbox, or to have a name resolved (port 53, anywhere).

    ``address`` is empty where it could not be read. ``name`` is what was asked for, where that could be read.
    """

    address: str = ""
    port: int = Field(default=0, ge=0, le=65_535)
    name: str = ""
    op_id: str = ""
    count: int = Field(default=1, ge=1)
    first_s: Moment = None
    incarnation: int = 0
