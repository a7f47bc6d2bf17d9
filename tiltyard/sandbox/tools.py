"""The tools of a sandbox: one schema each, for prompting, parsing and calling, as a world's tools have it."""

from codecs import getincrementaldecoder
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from schemas.base import JsonObject
from schemas.operation import (
    MAX_WRITE_BYTES,
    ExecRequest,
    ExecResult,
    Output,
    ReadRequest,
    ReadResult,
    SandboxReply,
    SandboxRequest,
    WriteRequest,
)
from schemas.sandbox import WORK, SandboxLimits
from schemas.task import Task
from schemas.tool import ToolSpec
from schemas.world import Shown
from tiltyard.errors import BadInput
from tiltyard.worlds.arguments import parse, values, wire_form
from tiltyard.worlds.kit import Tool, tool

MAX_COMMAND_BYTES = 131_071
"""Of one command: what Linux takes in one argument."""

LEAST_COMMAND_S = 0.1
"""The time of a command for which none is left."""

CUT_SHORT = "the episode's wall time ends"
"""What is said of a command that had less time than was asked for."""

Path = Annotated[
    str,
    Field(min_length=1, max_length=1024, description=f"A file below {WORK}, such as src/app.py."),
]


class _Asked:
    """What the tools' functions are given in the place of a world's state."""

    def __init__(self, op_id: str, limits: SandboxLimits) -> None:
        self.op_id, self.limits = op_id, limits


@tool(cost_s=5)
def shell(
    asked: _Asked,
    command: Annotated[str, Field(min_length=1, max_length=MAX_COMMAND_BYTES, description="A script for /bin/sh.")],
    timeout_s: Annotated[
        float | None, Field(gt=0, description="Seconds after which it is killed; at most what the task allows.")
    ] = None,
) -> ExecRequest:
    """Run a command in the working directory of the sandbox.

    Each call is a new shell: a change of directory or of the environment does not last. Files do, and so do
    background processes.
    """
    if "\0" in command:
        raise BadInput("holds a zero byte, which no command can", field="command", fix="leave it out")
    if (size := len(command.encode())) > MAX_COMMAND_BYTES:
        fix = f"at most {MAX_COMMAND_BYTES}; write long content with write_file"
        raise BadInput(f"has {size} bytes", field="command", fix=fix)
    longest_s = asked.limits.command_s
    allowed_s = longest_s if timeout_s is None else min(timeout_s, longest_s)
    return ExecRequest(op_id=asked.op_id, argv=("/bin/sh", "-c", command), timeout_s=allowed_s)


@tool()
def read_file(
    asked: _Asked,
    path: Path,
    offset: Annotated[int, Field(ge=0, le=2**40, description="The first byte to read.")] = 0,
    limit: Annotated[int, Field(ge=1, le=2**20, description="How many bytes to read at most.")] = 16_384,
) -> ReadRequest:
    """Read a file of the sandbox, or a piece of it. Where there is more, next_offset says where to go on."""
    return ReadRequest(op_id=asked.op_id, path=below_work(path), offset=offset, limit=limit)


@tool()
def write_file(
    asked: _Asked,
    path: Path,
    content: Annotated[str, Field(max_length=MAX_WRITE_BYTES, description="The whole new content.")],
) -> WriteRequest:
    """Write a file of the sandbox, with the folders that it needs; what it held before is replaced."""
    return WriteRequest(op_id=asked.op_id, path=below_work(path), content=content.encode())


TOOLS: Mapping[str, Tool] = MappingProxyType({one.spec.name: one for one in (shell, read_file, write_file)})

SANDBOX_TOOLS: Mapping[str, ToolSpec] = MappingProxyType({name: one.spec for name, one in TOOLS.items()})
"""Every task with a sandbox offers these, unless its allow-list leaves them out."""


def is_command(task: Task, tool: str) -> bool:
    """Whether a call of ``tool`` goes to the task's sandbox."""
    return task.sandbox is not None and tool in SANDBOX_TOOLS and (not task.tools or tool in task.tools)


def may_change_files(task: Task, tool: str) -> bool:
    """Whether a call of ``tool`` can have left the sandbox's files otherwise than it found them."""
    return is_command(task, tool) and tool != read_file.spec.name


def world_tools(task: Task) -> tuple[str, ...]:
    """The task's allow-list as its world knows it."""
    return tuple(tool for tool in task.tools if task.sandbox is None or tool not in SANDBOX_TOOLS)


def inside_tools(task: Task) -> tuple[str, ...]:
    """The tools of its world that programs in the task's sandbox may call, each once."""
    exposes = task.sandbox.exposes if task.sandbox is not None else {}
    return tuple(dict.fromkeys(tool for tools in exposes.values() for tool in tools))


def request_of(tool: str, arguments: JsonObject, op_id: str, limits: SandboxLimits) -> SandboxRequest | Shown:
    """What the sandbox is asked to do, or the error that the agent is shown (I11)."""
    try:
        wire_form(arguments)
        parsed = parse(TOOLS[tool], arguments)
        if isinstance(parsed, Shown):
            return parsed
        return request_for(TOOLS[tool], parsed, op_id, limits)
    except BadInput as error:
        return Shown(status="error", code="bad_arguments", message=str(error))


def request_for(tool: Tool, parsed: BaseModel, op_id: str, limits: SandboxLimits) -> SandboxRequest:
    """The request of a call whose arguments fit the tool's schema. Raises ``BadInput`` naming the argument."""
    try:
        request: SandboxRequest = tool.run(_Asked(op_id, limits), **values(tool, parsed))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(map(str, found["loc"]))
        raise BadInput(found["msg"].removeprefix("Value error, "), field=field) from None
    return request


def in_time(request: SandboxRequest, left_s: float) -> SandboxRequest:
    """The request with at most ``left_s`` seconds, where it is a command.

    It is sent also when nothing is left, as it may have been sent before: then it asks for what came of it.
    """
    if not isinstance(request, ExecRequest) or request.timeout_s <= left_s:
        return request
    return request.model_copy(update={"timeout_s": max(left_s, LEAST_COMMAND_S)})


def with_clock(request: SandboxRequest, elsewhere_s: int) -> SandboxRequest:
    """The request with the time that the episode has spent outside its world, where it is a command."""
    if not isinstance(request, ExecRequest):
        return request
    return request.model_copy(update={"elsewhere_s": elsewhere_s})


def below_work(path: str) -> str:
    """A path as the sandbox takes it: an agent may write it with ``/work/`` before it."""
    return path.removeprefix(f"{WORK}/")


def shown_of(request: SandboxRequest, reply: SandboxReply) -> Shown:
    """What the agent is shown of an outcome: no durations and no process ids, so equal episodes show the same.

    ``request`` is what the agent asked for: what was sent may have had less time.
    """
    if reply.code:
        return Shown(status="error", code=reply.code, message=reply.message)
    if reply.exec is not None:
        assert isinstance(request, ExecRequest), "a reply is of its request's kind"
        return Shown(status="ok", content=_command(request, reply.exec))
    if reply.read is not None:
        assert isinstance(request, ReadRequest), "a reply is of its request's kind"
        return Shown(status="ok", content=_piece(request.offset, reply.read))
    assert reply.write is not None, "a reply has a result or a code"
    return Shown(status="ok", content={"size": reply.write.size})


def _command(request: ExecRequest, result: ExecResult) -> JsonObject:
    shown: dict[str, Any] = {
        "exit_code": result.exit_code,
        "stdout": result.stdout.text,
        "stderr": result.stderr.text,
    }
    shown |= {"signal": result.signal} if result.signal else {}
    shown |= {name: True for name in ("timed_out", "out_of_memory") if getattr(result, name)}
    shown |= {"cut_short": CUT_SHORT} if result.timed_out and result.timeout_s < request.timeout_s else {}
    return shown | _about("stdout", result.stdout) | _about("stderr", result.stderr)


def _about(name: str, output: Output) -> JsonObject:
    told: JsonObject = {f"{name}_cut_bytes": output.cut_bytes} if output.cut_bytes else {}
    return told | ({f"{name}_not_utf8": True} if output.invalid_utf8 else {})


def _piece(offset: int, piece: ReadResult) -> JsonObject:
    there_is_more = offset + len(piece.content) < piece.size
    shown = _whole_characters(piece.content) if there_is_more else piece.content
    text = shown.decode("utf-8", "replace")
    told: JsonObject = {"content": text, "size": piece.size}
    told |= {"next_offset": offset + len(shown)} if there_is_more else {}
    return told | ({"not_utf8": True} if text.encode() != shown else {})


def _whole_characters(content: bytes) -> bytes:
    """``content`` without a character that is cut at its end, unless nothing else is in it."""
    decoder = getincrementaldecoder("utf-8")("replace")
    decoder.decode(content)
    cut_off, _ = decoder.getstate()
    return content.removesuffix(cut_off) or content
