"""What a sandbox in memory was asked to do and what ran in it, and how its facts tell of both."""

import asyncio
from dataclasses import dataclass

from schemas.operation import ExecRequest, Output, SandboxReply, SandboxRequest, request_digest
from schemas.told import CommandRecord, OutputRecord, ProcessRecord


@dataclass
class Operation:
    """A request that was accepted, and its outcome as soon as there is one."""

    request: SandboxRequest
    outcome: "asyncio.Future[SandboxReply]"
    signal: str = ""
    in_flight: bool = False
    started_s: float = 0
    ended_s: float | None = None

    @property
    def digest(self) -> str:
        return request_digest(self.request)


@dataclass
class RanProgram:
    """A program that was started. ``alive`` until it ends; ``left`` if it outlived the seal."""

    pid: int
    parent: int
    argv: tuple[str, ...]
    op_id: str
    started_s: float
    ended_s: float | None = None
    alive: bool = True
    left: bool = False


def fail(operation: Operation, error: BaseException) -> None:
    if not operation.outcome.done():
        operation.outcome.set_exception(error)
        operation.outcome.exception()  # nobody may be waiting: then it is not an error that was forgotten


def command_record(operation: Operation) -> CommandRecord:
    request, outcome = operation.request, operation.outcome
    done = outcome.done() and not operation.in_flight and outcome.exception() is None
    result = operation.outcome.result().exec if done else None
    return CommandRecord(
        op_id=request.op_id,
        do=request.do,
        argv=request.argv if isinstance(request, ExecRequest) else (),
        path="" if isinstance(request, ExecRequest) else request.path,
        request_digest=operation.digest,
        started=True,
        ended=done,
        exit_code=result.exit_code if result else None,
        signal=result.signal if result else "",
        started_s=operation.started_s,
        ended_s=operation.ended_s,
        stdout=_output_record(result.stdout) if result else None,
        stderr=_output_record(result.stderr) if result else None,
    )


def _output_record(output: Output) -> OutputRecord:
    return OutputRecord(digest=output.digest, total_bytes=output.total_bytes)


def process_record(running: RanProgram) -> ProcessRecord:
    return ProcessRecord(
        pid=running.pid,
        parent=running.parent,
        argv=running.argv,
        op_id=running.op_id,
        left=running.left,
        started_s=running.started_s,
        ended_s=running.ended_s,
    )
