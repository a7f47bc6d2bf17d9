"""A sandbox: what a task asks for, what it is asked to do, and what it says of itself.

Everything that happens in it has an operation id. A request with the id of an earlier one returns what is recorded
of that one, or waits for it; it never runs again.
"""

import base64
import binascii
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from schemas.base import Model, digest_of
from schemas.span import RealS
from schemas.told import CommandRecord, ConnectionAttempt, MarkedRead, ProcessRecord, Told
from schemas.world import Owner

WORK = "/work"
"""Where a sandbox's files are: the working directory of every command."""

MAX_PATH = 1024
"""Bytes of a path below ``WORK``."""

MAX_WRITE_BYTES = 4 * 2**20
"""Bytes that one ``write`` may carry."""

DriverName = Literal["bubblewrap", "docker", "unsafe-local"]
"""``unsafe-local`` isolates nothing: its episodes are marked, and tasks with hidden tests refuse it."""

BASE_IMAGE = "base"
"""The image of a task that names none. Only Docker has images; what other drivers show is the machine's own."""

Enforced = Literal["cpu", "memory", "processes", "disk", "file_count", "output", "network", "files"]
"""What a driver can hold a sandbox to on this machine. ``files`` are those of others, with all other rights;
``file_count`` is how many its own places may hold."""

Sight = Literal["every_exec", "connections", "marked_reads", "control_groups"]
"""What can be told of a sandbox on this machine: each program that is started, attempts to reach somebody, reads of
marked files, and, from outside, how many processes there are and how they end."""

MAX_TOLD_COMMANDS, MAX_TOLD_PROGRAMS, MAX_TOLD_READS, MAX_TOLD_CONNECTIONS = 10_000, 10_000, 1000, 1000
"""Entries of each kind that the facts of a sandbox hold. What is more is counted."""

MAX_TOLD_TEXT = 48 * 2**20
"""Characters of all texts in the facts of one sandbox."""


def work_path(path: str) -> str:
    """``path`` when it names a file below ``WORK``: relative, no empty part, no ``.`` or ``..``, no NUL."""
    parts = path.split("/")
    if not path or len(path.encode("utf-8", "surrogatepass")) > MAX_PATH:
        raise ValueError(f"a path has 1 to {MAX_PATH} bytes")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise ValueError("must be relative to the working directory, without empty parts, '.' and '..'")
    return path


def folders_of(path: str) -> tuple[str, ...]:
    """The folders below ``WORK`` that ``path`` lies in, from the outermost."""
    parts = path.split("/")
    return tuple("/".join(parts[:count]) for count in range(1, len(parts)))


WorkPath = Annotated[str, AfterValidator(work_path)]


def _bytes(value: object) -> object:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else value
    except (binascii.Error, ValueError):
        raise ValueError("is no base64") from None


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


Data = Annotated[bytes, BeforeValidator(_bytes), PlainSerializer(_text, when_used="json")]
"""Bytes; base64 in JSON."""


class SandboxLimits(Model):
    """What one sandbox may use. Bytes and seconds are real ones.

    ``cpu_s`` is the processor time of one process, ``command_s`` the longest that one command may run,
    ``output_bytes`` what is kept of each of its two outputs. ``disk_bytes`` is the size of ``/work``; ``/tmp`` and
    ``/dev/shm`` have half of it each.
    """

    cpu_s: int = Field(default=60, ge=1, le=86_400)
    memory_bytes: int = Field(default=512 * 2**20, ge=64 * 2**20, le=64 * 2**30)
    processes: int = Field(default=64, ge=8, le=4096)
    disk_bytes: int = Field(default=64 * 2**20, ge=2**20, le=2**30)
    output_bytes: int = Field(default=16_384, ge=1024, le=2**20)
    command_s: float = Field(default=60, gt=0, le=480)


Normaliser = Literal["durations", "addresses", "process_ids", "temporary_names", "users"]
"""Parts of a command's output that differ between equal runs; the trace digest leaves them out (I7)."""


Isolation = Literal["fresh", "reset"]
"""What a sandbox is made of, where a driver has a choice: what nobody has used before (``fresh``), or also what was
used and then proven to be as it was at its start (``reset``)."""


WORLD_SUFFIX = ".world"
"""What the name of an exposed world ends with where a program in a sandbox asks for it."""

Exposes = dict[
    Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")], Annotated[tuple[str, ...], Field(min_length=1)]
]
"""Names under which programs in a sandbox reach the task's world, each with the tools that they may call there."""


class SandboxPlan(Model):
    """What a task needs of a sandbox: its files at the start, its limits and what is left out of the digest.

    ``image`` is what a Docker sandbox is made of: one of ``tiltyard images list``, or a registry's reference.
    ``settle_s`` is how long background processes are waited for before the seal, in real seconds. ``on_loss`` says
    what a lost host costs: ``restore`` goes on from the last checkpoint, with the policy told. ``marked`` are those
    of ``files`` whose every opening is told in the trace, wherever they are moved; the policy does not learn which.
    ``while_waiting`` says whether an episode that waits long gives it up; its processes then end. ``exposes`` makes
    the task's world an HTTP service for programs in the sandbox: ``http://NAME.world/``.
    """

    files: dict[WorkPath, str] = {}
    marked: tuple[WorkPath, ...] = Field(default=(), max_length=MAX_TOLD_READS)
    image: str = Field(default=BASE_IMAGE, min_length=1, max_length=255)
    isolation: Isolation = "fresh"
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = {}
    limits: SandboxLimits = SandboxLimits()
    settle_s: float = Field(default=0, ge=0, le=600)
    on_loss: Literal["restore", "environment_error"] = "restore"
    while_waiting: Literal["give_up", "keep"] = "give_up"
    exposes: Exposes = {}
    normalise: tuple[Normaliser, ...] = ("durations", "users")

    @model_validator(mode="after")
    def _can_be_made(self) -> Self:
        for path in self.files:
            if inside := next((above for above in folders_of(path) if above in self.files), None):
                raise ValueError(f"files: {inside!r} is a file, and {path!r} would lie below it; rename one")
        if missing := next((path for path in self.marked if path not in self.files), None):
            raise ValueError(f"marked: {missing!r} is not among files; add it there, or take it out")
        size, most = sum(len(text.encode()) for text in self.files.values()), self.limits.disk_bytes
        if size > most:
            raise ValueError(f"files: they have {size} bytes; limits.disk_bytes allows {most}")
        if unclean := next((name for name, value in self.environment.items() if "\0" in value), None):
            raise ValueError(f"environment: {unclean} holds a zero byte, which no environment can; leave it out")
        return self


class SandboxRef(Model):
    """One incarnation of one episode's sandbox. ``name`` is the same in all of them."""

    driver: DriverName
    name: str
    incarnation: int = Field(ge=1)


class FileEntry(Model):
    """One thing below ``WORK``. ``content`` is ``None`` where it was known already, or is not a file's.

    ``target`` is where a link points to; it is data, and never followed.
    """

    path: WorkPath
    kind: Literal["file", "directory", "link"] = "file"
    mode: int = Field(default=0o644, ge=0, le=0o777)
    size: int = Field(default=0, ge=0)
    digest: str = Field(default="", description="of a file's bytes")
    target: str = ""
    content: Data | None = None


class Snapshot(Model):
    """All that is below ``WORK``, sorted by path. ``skipped`` are things of other kinds (devices, sockets) and
    what could not be read: they are named and never copied."""

    entries: tuple[FileEntry, ...] = ()
    skipped: tuple[str, ...] = ()


class SandboxOrder(Model):
    """Provision one incarnation; again: the same sandbox. Lower incarnations of ``name`` are discarded.

    ``start`` are the files that it begins with, ``marked`` those of them whose reads are told: by their paths, each
    with the path that it is told by.
    """

    driver: DriverName
    name: str
    incarnation: int = Field(ge=1)
    owner: Owner
    episode_id: str
    image: str = BASE_IMAGE
    isolation: Isolation = "fresh"
    start: Snapshot = Snapshot()
    marked: dict[WorkPath, WorkPath] = {}
    environment: dict[str, str] = {}
    limits: SandboxLimits = SandboxLimits()
    exposes: Exposes = {}


def services_of(order: SandboxOrder) -> tuple[str, ...]:
    """Names of hosts under which programs in the sandbox reach a world."""
    return tuple(f"{name}{WORLD_SUFFIX}" for name in order.exposes)


class WorldAccess(Model):
    """The lease that calls from inside a sandbox belong to."""

    world: str
    namespace: str
    generation: int


class ExecRequest(Model):
    """Run ``argv`` in ``WORK``. ``timeout_s`` counts from its start; past it, its whole session is killed.

    ``elsewhere_s`` is the virtual time that the episode had spent outside its world before.

    Of a command that is asked for again, the time of the first request counts.
    """

    do: Literal["exec"] = "exec"
    op_id: str
    argv: tuple[str, ...] = Field(min_length=1)
    timeout_s: RealS
    stdin: Data = b""
    elsewhere_s: int = Field(default=0, ge=0)


class ReadRequest(Model):
    """Read a file below ``WORK``: up to ``limit`` bytes from ``offset``."""

    do: Literal["read"] = "read"
    op_id: str
    path: WorkPath
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=65_536, ge=1, le=2**22)


class WriteRequest(Model):
    """Write a file below ``WORK``, with the folders that it needs. Links on the way are refused, not followed."""

    do: Literal["write"] = "write"
    op_id: str
    path: WorkPath
    content: Data = Field(max_length=MAX_WRITE_BYTES)
    mode: int = Field(default=0o644, ge=0, le=0o777)


SandboxRequest = Annotated[ExecRequest | ReadRequest | WriteRequest, Field(discriminator="do")]


def request_digest(request: SandboxRequest) -> str:
    """What tells two requests under one id apart: all but the time that a command has. It may be what is left of
    something, and that is less when the same command is asked for again."""
    return digest_of(request.model_dump(mode="json", exclude={"timeout_s"}))


class Output(Model):
    """One output of a command: what was kept of it, and how many bytes came in all.

    Of a longer one the first and the last half of ``output_bytes`` are kept, with a line between that says what
    was cut. Bytes that are no UTF-8 are replaced in ``text`` and flagged. ``digest`` is of all the bytes that came.
    """

    text: str = ""
    total_bytes: int = 0
    digest: str = ""
    cut_bytes: int = 0
    invalid_utf8: bool = False


class WorldSeen(Model):
    """The world's clock after the last call from inside the sandbox, and how much time outside of it that had made
    up for. ``outage_s`` are real seconds that programs of the command waited for a world that was away."""

    now_s: int
    elsewhere_s: int
    outage_s: float = 0


class ExecResult(Model):
    """How a command ended: the leader of its session was waited for, whatever it left behind.

    ``exit_code`` is ``None`` when a signal ended it. ``out_of_memory`` where the machine can tell. ``timeout_s`` is
    the time that it had. ``duration_s`` is real time and in no digest. ``world`` is there once somebody in the
    sandbox has called the world.
    """

    exit_code: int | None
    signal: str = ""
    timed_out: bool = False
    out_of_memory: bool = False
    stdout: Output = Output()
    stderr: Output = Output()
    timeout_s: float = 0
    duration_s: float = 0
    world: WorldSeen | None = None


class ReadResult(Model):
    """A piece of a file. ``size`` is the whole file's."""

    content: Data
    size: int


class WriteResult(Model):
    size: int


ReplyCode = Literal["not_found", "not_a_file", "bad_path", "no_space", "denied", "cannot_start"]
"""Why a request was not done. One that comes after the seal has no reply: ``LateWrite`` is raised."""


class SandboxReply(Model):
    """The recorded outcome of a request: one of the results, or why not; then there is a ``code``."""

    op_id: str
    code: ReplyCode | Literal[""] = ""
    message: str = ""
    exec: ExecResult | None = None
    read: ReadResult | None = None
    write: WriteResult | None = None


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


class SandboxOffer(Model):
    """Whether a driver works here; ``problem`` and ``fix`` say why not. ``slots`` sandboxes fit at once."""

    driver: DriverName
    available: bool
    problem: str = ""
    fix: str = ""
    enforced: tuple[Enforced, ...] = ()
    sees: tuple[Sight, ...] = ()
    slots: int = 0


class SandboxRecord(Model):
    """A sandbox that is there, or was lost and not yet given up by its episode."""

    ref: SandboxRef
    owner: Owner
    episode_id: str
    state: Literal["live", "sealed", "lost"] = "live"
