"""One incarnation of a sandbox in memory: its files, its operations with their outcomes, and its programs."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from schemas.base import sha256
from schemas.operation import (
    ExecRequest,
    ExecResult,
    Output,
    ReadRequest,
    ReadResult,
    SandboxReply,
    SandboxRequest,
    WriteRequest,
    WriteResult,
)
from schemas.sandbox import SandboxOrder, SandboxRef, WorldAccess
from schemas.sandbox_facts import SandboxDrain, SandboxFacts
from schemas.told import MarkedRead
from tiltyard.errors import BadInput, SandboxLost
from tiltyard.testing.gated_world import Gate
from tiltyard.testing.little_shell import Forks, Item, Outputs, Program, Shell, parse
from tiltyard.testing.memory_files import FileRefused, MemoryFiles
from tiltyard.testing.memory_operations import Operation, RanProgram, command_record, fail, process_record

__all__ = ["HELD", "SEES", "MemoryBox"]

SHELL = ("/bin/sh", "-c")

HELD: tuple[Literal["disk", "files", "network", "output"], ...] = ("disk", "files", "network", "output")
"""What the fake holds a sandbox to."""

SEES: tuple[Literal["every_exec", "marked_reads"], ...] = ("every_exec", "marked_reads")
"""What it tells of one."""


@dataclass
class MemoryBox:
    """A sandbox. ``state`` is what ``sandboxes()`` says of it."""

    order: SandboxOrder
    started: Gate
    ending: Gate
    programs: Mapping[str, Program] = field(default_factory=dict)
    state: Literal["live", "sealed", "lost"] = "live"
    operations: dict[str, Operation] = field(default_factory=dict)
    refused: int = 0
    access: WorldAccess | None = None
    drained: SandboxDrain | None = None

    def __post_init__(self) -> None:
        self.ref = SandboxRef(driver=self.order.driver, name=self.order.name, incarnation=self.order.incarnation)
        self.files = MemoryFiles(self.order.start, self.order.limits.disk_bytes, self.order.marked)
        self._began = asyncio.get_running_loop().time()
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": "/work", "LANG": "C.UTF-8", **self.order.environment}
        self._tasks: dict[asyncio.Task[Any], str] = {}
        self._ran: list[RanProgram] = []

    def accept(self, request: SandboxRequest) -> Operation:
        """Start what was asked for, once. Raises ``BadInput`` for a command that the fake does not know."""
        items = self._script(request) if isinstance(request, ExecRequest) else ()
        operation = Operation(request, asyncio.get_running_loop().create_future(), started_s=self.now_s)
        operation.outcome.add_done_callback(lambda _: setattr(operation, "ended_s", self.now_s))
        self.operations[request.op_id] = operation
        if isinstance(request, ExecRequest):
            self._start(request.op_id, self._execute(operation, request, items))
        else:
            operation.outcome.set_result(self._file_operation(request))
        return operation

    def _script(self, request: ExecRequest) -> tuple[Item, ...]:
        if request.argv[:2] == SHELL and len(request.argv) == 3:
            return parse(request.argv[2], self.programs)
        if request.argv[0] in self.programs:
            return ()
        raise BadInput(
            f"the fake cannot run {request.argv[0]!r}",
            field="argv",
            fix="use /bin/sh -c SCRIPT, or give it programs",
        )

    def _start(self, op_id: str, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = op_id
        task.add_done_callback(self._tasks.pop)

    async def _execute(self, operation: Operation, request: ExecRequest, items: tuple[Item, ...]) -> None:
        outputs, begun, status, timed_out = Outputs(), asyncio.get_running_loop().time(), 0, False
        try:
            async with asyncio.timeout(min(request.timeout_s, self.order.limits.command_s)):
                await self.started.passing()
                status = await self._run(request, items, outputs)
                await self.ending.passing()
        except TimeoutError:
            timed_out, operation.signal = True, "SIGKILL"
            self._kill(self._tasks_of(request.op_id))
        except asyncio.CancelledError:
            if not operation.signal:
                raise
        except BaseException as error:
            fail(operation, error)
            return
        result = ExecResult(
            exit_code=None if operation.signal else status,
            signal=operation.signal,
            timed_out=timed_out,
            timeout_s=min(request.timeout_s, self.order.limits.command_s),
            stdout=self._output(outputs.stdout),
            stderr=self._output(outputs.stderr),
            duration_s=asyncio.get_running_loop().time() - begun,
        )
        if not operation.outcome.done():
            operation.outcome.set_result(SandboxReply(op_id=request.op_id, exec=result))

    async def _run(self, request: ExecRequest, items: tuple[Item, ...], outputs: Outputs) -> int:
        place, files = _Place(self, request.op_id), self.files.seen_by(request.op_id)
        with place.program(request.argv):
            if request.argv[:2] != SHELL:
                status, text = self.programs[request.argv[0]](request.argv, request.stdin, files)
                outputs.stdout.extend(text.encode())
                return status
            shell = Shell(files, self.environment, request.stdin, outputs, place, self.programs)
            return await shell.run(items)

    def _output(self, written: bytearray) -> Output:
        limit, total = self.order.limits.output_bytes, len(written)
        kept, cut = bytes(written), max(0, total - limit)
        if cut:
            half = limit // 2
            kept = kept[:half] + f"\n[{cut} bytes cut]\n".encode() + kept[total - (limit - half) :]
        text = kept.decode("utf-8", "replace")
        digest = sha256(bytes(written))
        return Output(
            text=text, total_bytes=total, digest=digest, cut_bytes=cut, invalid_utf8=text.encode() != kept
        )

    def _file_operation(self, request: ReadRequest | WriteRequest) -> SandboxReply:
        try:
            if isinstance(request, WriteRequest):
                self.files.write_with_folders(request.path, request.content, request.mode)
                return SandboxReply(op_id=request.op_id, write=WriteResult(size=len(request.content)))
            content = self.files.seen_by(request.op_id).read(request.path)
        except FileRefused as refused:
            return SandboxReply(op_id=request.op_id, code=refused.code, message=f"{request.path}: {refused.reason}")
        piece = content[request.offset : request.offset + request.limit]
        return SandboxReply(op_id=request.op_id, read=ReadResult(content=piece, size=len(content)))

    def tasks(self) -> list["asyncio.Task[Any]"]:
        """What runs: commands, and what they left behind."""
        return [task for task in self._tasks if not task.done()]

    def _tasks_of(self, op_id: str) -> list["asyncio.Task[Any]"]:
        return [task for task in self.tasks() if self._tasks[task] == op_id and task is not asyncio.current_task()]

    def _kill(self, tasks: list["asyncio.Task[Any]"]) -> None:
        for task in tasks:
            task.cancel()

    def seal(self) -> None:
        if self.state == "live":
            self.state = "sealed"
            for running in self._ran:
                running.left = running.alive
            for operation in self.operations.values():
                operation.in_flight = not operation.outcome.done()

    async def drain(self) -> SandboxDrain:
        if self.state != "sealed":
            raise BadInput("it is not sealed", field="sandbox", fix="seal it first")
        if self.drained is None:
            found = self.tasks()
            for operation in self.operations.values():
                if not operation.outcome.done():
                    operation.signal = "SIGTERM"
            self._kill(found)
            empty = await self._is_empty()
            self._end_what_never_began()
            self.drained = SandboxDrain(
                found=len(found), ended_by_term=len(found), refused=self.refused, empty=empty
            )
        return self.drained

    def _end_what_never_began(self) -> None:
        """A task that is cancelled before its first step never gets to say how it ended."""
        for op_id, operation in self.operations.items():
            if not operation.outcome.done():
                killed = ExecResult(exit_code=None, signal=operation.signal)
                operation.outcome.set_result(SandboxReply(op_id=op_id, exec=killed))

    async def _is_empty(self) -> bool:
        if tasks := self.tasks():
            await asyncio.wait(tasks)
        return not self.tasks()

    def end(self, loss: type[SandboxLost] = SandboxLost) -> None:
        """Kill all of it; those who wait for an operation learn that it is lost."""
        self.state, self.loss = "lost", loss
        self._kill(self.tasks())
        for operation in self.operations.values():
            fail(operation, loss(f"{self.ref.name}/{self.ref.incarnation} is gone"))

    def facts(self) -> SandboxFacts:
        if self.drained is None:
            raise BadInput("it is not drained", field="sandbox", fix="drain it first")
        return SandboxFacts(
            driver=self.ref.driver,
            incarnation=self.ref.incarnation,
            enforced=HELD,
            environment=self.environment,
            commands=tuple(command_record(operation) for operation in self.operations.values()),
            processes=tuple(process_record(running) for running in self._ran),
            watched="every_exec",
            marked_reads=self._marked_reads(),
            drain=self.drained,
        )

    def testimony(self) -> SandboxFacts:
        """What it had written down, once it is lost."""
        return SandboxFacts(
            driver=self.ref.driver,
            incarnation=self.ref.incarnation,
            commands=tuple(command_record(operation) for operation in self.operations.values()),
            marked_reads=self._marked_reads(),
            from_journal=True,
            drain=self.drained or SandboxDrain(),
        )

    def _marked_reads(self) -> tuple[MarkedRead, ...]:
        counts = Counter(self.files.marked_reads)
        return tuple(
            MarkedRead(path=path, op_id=op_id, opens=count, reads=count, incarnation=self.ref.incarnation)
            for (path, op_id), count in counts.items()
        )

    @property
    def now_s(self) -> float:
        """Seconds since it was made."""
        return asyncio.get_running_loop().time() - self._began

    @contextmanager
    def program(self, argv: tuple[str, ...], op_id: str, parent: int) -> Iterator[int]:
        running = RanProgram(len(self._ran) + 2, parent, argv, op_id, self.now_s)
        self._ran.append(running)
        try:
            yield running.pid
        finally:
            running.alive, running.ended_s = False, self.now_s


class _Place(Forks):
    """Where a shell of one operation runs."""

    def __init__(self, box: MemoryBox, op_id: str) -> None:
        self._box, self._op_id, self._leader = box, op_id, 1

    @contextmanager
    def program(self, argv: tuple[str, ...]) -> Iterator[None]:
        with self._box.program(argv, self._op_id, self._leader) as pid:
            self._leader = pid if self._leader == 1 else self._leader
            yield

    def background(self, work: Coroutine[Any, Any, object]) -> None:
        self._box._start(self._op_id, work)
