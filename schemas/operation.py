"""What a sandbox is asked to do, and what it answers.

Everything that happens in it has an operation id. A request with the id of an earlier one returns what is recorded
of that one, or waits for it; it never runs again.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Model, digest_of
from schemas.sandbox import Data, WorkPath
from schemas.span import RealS

MAX_WRITE_BYTES = 4 * 2**20
"""Bytes that one ``write`` may carry."""


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
