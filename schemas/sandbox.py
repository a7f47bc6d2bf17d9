"""A sandbox: what a task asks for, what it is made of, and what a driver offers."""

import base64
import binascii
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from schemas.base import Model
from schemas.told import MAX_TOLD_READS
from schemas.world import Owner

WORK = "/work"
"""Where a sandbox's files are: the working directory of every command."""

MAX_PATH = 1024
"""Bytes of a path below ``WORK``."""

DriverName = Literal["bubblewrap", "docker", "unsafe-local"]
"""``unsafe-local`` isolates nothing: its episodes are marked, and tasks with hidden tests refuse it."""

BASE_IMAGE = "base"
"""The image of a task that names none. Only Docker has images; what other drivers show is the machine's own."""

_NAME = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY = rf"(?:{_HOST}(?:\.{_HOST})*|\[[0-9A-Fa-f:]+\])(?::[0-9]{{1,5}})?"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}"

IMAGE_REFERENCE = re.compile(rf"(?:{_REGISTRY}/)?{_NAME}(?:/{_NAME})*(?::{_TAG})?(?:@{_DIGEST})?", re.ASCII)
"""What an engine takes for an image's reference: ``REGISTRY:PORT/NAME/NAME:TAG@DIGEST``, all but a name optional
(the distribution project's grammar, ``reference/reference.go``). The names of images that are built fit it too."""

Enforced = Literal["cpu", "memory", "processes", "processors", "disk", "file_count", "output", "network", "files"]
"""What a driver can hold a sandbox to on this machine. ``processors`` is how many all of it may keep busy;
``files`` are those of others, with all other rights; ``file_count`` is how many its own places may hold."""

Sight = Literal["every_exec", "connections", "marked_reads", "control_groups"]
"""What can be told of a sandbox on this machine: each program that is started, attempts to reach somebody, reads of
marked files, and, from outside, how many processes there are and how they end."""


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
        for index, path in enumerate(self.marked):
            if path not in self.files:
                raise ValueError(f"marked.{index}: {path!r} is not among files; add it there, or take it out")
            if self.marked.index(path) < index:
                raise ValueError(f"marked.{index}: {path!r} stands there already; take it out")
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
