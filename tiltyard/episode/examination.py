"""Examinations: the tests of a task, run on the sources that an agent left, each run in a fresh sandbox.

They are held before the graders, which are pure functions: what the tests said is one of their facts. Nothing of
the agent's sandbox is used but the contents of its drained files.
"""

import asyncio
import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from schemas.base import canonical
from schemas.contract import TestsContract
from schemas.exam import Exam, Exams, TestReport, TestRun
from schemas.operation import ExecRequest, ExecResult, SandboxReply
from schemas.sandbox import DriverName, SandboxLimits, SandboxOrder, SandboxPlan, SandboxRef, Snapshot
from schemas.task import Task
from schemas.world import Owner
from tiltyard.errors import (
    BadInput,
    EnvironmentFailed,
    GraderFailed,
    SandboxLost,
    SandboxOutOfMemory,
    SandboxUnavailable,
)
from tiltyard.graders import exam_runner
from tiltyard.graders.exam_files import ExamFiles, exam_files, expected_tests
from tiltyard.ports import Sandboxes

PYTHON = ("python3", "-I", "-S", "-B", "-c")
"""Nothing that lies in the sandbox is loaded by Python itself: no path, no hook, no compiled file."""

LEAST_DISK_BYTES = 64 * 2**20
OUTPUT_BYTES = 2**20


@dataclass(frozen=True)
class Sitting:
    """One attempt at the examinations of one episode: whose sandboxes they are, and what they are called.

    ``attempt`` counts from 1; the sandboxes of a later one take the place of those that an earlier one left behind.
    """

    episode_id: str
    driver: DriverName
    owner: Owner
    attempt: int = 1


class Examination:
    """Runs the tests of tasks over the ``Sandboxes`` port."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def hold(self, task: Task, left: Snapshot, sitting: Sitting) -> Exams:
        """What the tests of every tests contract say of the files in ``left``, which has all contents.

        Raises ``EnvironmentFailed`` where a sandbox cannot be made or is lost: a later attempt may do better.
        Raises ``GraderFailed`` for a task whose tests cannot be read.
        """
        plan = task.sandbox
        assert plan is not None, "a task with a tests contract has a sandbox"
        try:
            return Exams(
                exams=tuple(
                    [
                        await self._exam(index, contract, plan, left, sitting)
                        for index, contract in enumerate(task.contracts)
                        if isinstance(contract, TestsContract)
                    ]
                )
            )
        except BadInput as error:
            raise GraderFailed(f"the tests of {task.id} cannot be run: {error}") from error
        except (SandboxLost, SandboxUnavailable) as error:
            raise EnvironmentFailed(f"the examination could not be held: {error}") from error

    async def _exam(
        self, index: int, contract: TestsContract, plan: SandboxPlan, left: Snapshot, sitting: Sitting
    ) -> Exam:
        """One run after the other, so that an examination holds one slot, and two never wait for each other."""
        files = exam_files(plan, contract, left)
        runs = {
            "visible": (files, expected_tests(plan.files, contract.visible)),
            "hidden": (
                files.laid_over(contract.hidden_files),
                expected_tests(contract.hidden_files, contract.hidden),
            ),
        }
        made = {}
        for name, (laid, tests) in runs.items():
            order = _order(f"{index}/{name}", laid, plan, contract, sitting)
            made[name] = await self._run(order, tests, contract.timeout_s)
        return Exam(contract=index, refused=files.refused, **made)

    async def _run(self, order: SandboxOrder, tests: tuple[str, ...], timeout_s: float) -> TestRun:
        nonce = secrets.token_hex(16)
        request = ExecRequest(
            op_id="exam",
            argv=(*PYTHON, _runner()),
            timeout_s=timeout_s,
            stdin=canonical({"nonce": nonce, "tests": tests}),
        )
        sandbox = await self._sandboxes.provision(order)
        try:
            reply = await self._sandboxes.call(sandbox, request)
        except SandboxOutOfMemory:  # nobody but the code under test ran in there
            return TestRun(expected=tests, exit_code=None, signal="SIGKILL", out_of_memory=True)
        finally:
            await self._release(sandbox)
        return read_run(tests, nonce, _ended(reply))

    async def _release(self, sandbox: SandboxRef) -> None:
        """Discard it whatever happened. What cannot be reached now, the next attempt or the janitor discards."""
        with suppress(EnvironmentFailed):
            await asyncio.shield(self._sandboxes.release(sandbox))


def _order(
    name: str, files: ExamFiles, plan: SandboxPlan, contract: TestsContract, sitting: Sitting
) -> SandboxOrder:
    limits: dict[str, Any] = {
        **plan.limits.model_dump(),
        "disk_bytes": max(plan.limits.disk_bytes, LEAST_DISK_BYTES),
        "output_bytes": OUTPUT_BYTES,
        "command_s": contract.timeout_s,
    }
    return SandboxOrder(
        driver=sitting.driver,
        name=f"exam/{sitting.episode_id}/{sitting.owner.workflow_id}/{name}",
        incarnation=sitting.attempt,
        owner=sitting.owner,
        episode_id=sitting.episode_id,
        image=plan.image,
        start=files.start(),
        environment=plan.environment,
        limits=SandboxLimits.model_validate(limits),
    )


def _ended(reply: SandboxReply) -> ExecResult:
    if reply.exec is None:
        raise SandboxUnavailable(f"the tests could not be started: {reply.code}: {reply.message}")
    return reply.exec


def read_run(tests: tuple[str, ...], nonce: str, result: ExecResult) -> TestRun:
    """What a run came to. Only lines that begin with the nonce are the runner's; all of it is untrusted text."""
    lines = list(_lines(nonce, result.stdout.text))
    end = next((line for line in lines if line.get("end") is True), None)
    patched = end.get("patched") if end is not None else None
    return TestRun(
        expected=tests,
        reports=tuple(_reports(lines)),
        exit_code=result.exit_code,
        signal=result.signal,
        timed_out=result.timed_out,
        out_of_memory=result.out_of_memory,
        finished=end is not None,
        patched=tuple(str(name)[:200] for name in patched[:20]) if isinstance(patched, list) else (),
    )


def _lines(nonce: str, text: str) -> Iterator[Mapping[str, Any]]:
    for line in text.split("\n"):
        if line.startswith(f"{nonce} "):
            with suppress(ValueError, RecursionError):
                found = json.loads(line.removeprefix(f"{nonce} "))
                if isinstance(found, dict):
                    yield found


def _reports(lines: list[Mapping[str, Any]]) -> Iterator[TestReport]:
    for line in lines:
        with suppress(ValidationError):
            yield TestReport.model_validate(line)


@cache
def _runner() -> str:
    """The source of the exam runner, as it is sent into the sandbox."""
    return Path(exam_runner.__file__).read_text(encoding="utf-8")
