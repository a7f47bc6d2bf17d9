"""What happened in an episode: its digest (I7), and its trace as canonical JSON Lines.

The digest covers the task's id, then in order each turn's decision, calls, observations, planned faults and clock,
then the world's changes and the end. Equal episodes have equal digests on any stack, disturbed or not, so it leaves
out whatever belongs to one run: ids of episode, namespace and deliveries, generation, wall time, slices, retries,
late writes and ledger positions. The engine's own rows are left out as rows, as they hold such ids, and what they
say of the world is put in instead: receipts by operation id, and jobs with their due time and state.

Of a sandbox it covers what commands showed, after the task's normalisers, and how the files that it is graded by
ended. What else lies in its working directory, and its programs, may differ between equal runs.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ValidationError

from schemas.base import JsonObject, canonical, digest_of
from schemas.contract import TestsContract
from schemas.episode import End
from schemas.evidence import Evidence, SandboxEvidence
from schemas.journal import TurnRecord
from schemas.task import Task
from schemas.tool import ToolSpec
from schemas.world import Facts, Job, LedgerRow, Receipt
from tiltyard.errors import BadInput
from tiltyard.graders.trial import agents_place
from tiltyard.sandbox.normalise import normalised_value
from tiltyard.sandbox.tools import is_command

FORMAT = 1
"""Version of the trace's lines."""


def trace_digest(
    task: Task, facts: Facts, turns: Sequence[TurnRecord], end: End, sandbox: SandboxEvidence | None = None
) -> str:
    """Digest of what happened, independent of where and under which disturbances it ran."""
    return digest_of(
        {
            "task": task.id,
            "turns": [covered_turn(task, turn) for turn in turns],
            "changes": [covered_change(row) for row in changes_in_order(facts)],
            "receipts": sorted((covered_receipt(receipt) for receipt in facts.receipts), key=canonical),
            "jobs": sorted((covered_job(job) for job in facts.jobs), key=canonical),
            "end": end,
            **({} if sandbox is None else {"files": covered_files(task, sandbox)}),
        }
    )


def changes_in_order(facts: Facts) -> list[LedgerRow]:
    """The world's changes that the digest covers: of entities, not of the engine's own rows."""
    return [row for row in sorted(facts.ledger, key=lambda row: row.position) if not row.system]


def covered_turn(task: Task, turn: TurnRecord) -> JsonObject:
    """As much of a turn as the digest covers, with what its commands showed after the task's normalisers."""
    dumped = turn.model_dump(mode="json", exclude={"turn", "checkpoint"})
    if task.sandbox is not None and turn.observations:
        dumped["observations"] = [
            normalised_value(shown, task.sandbox.normalise) if is_command(task, observation.tool) else shown
            for observation, shown in zip(turn.observations, dumped["observations"], strict=True)
        ]
    return dumped


def covered_files(task: Task, sandbox: SandboxEvidence) -> list[JsonObject]:
    """How the files that the task is graded by have changed."""
    sources = [
        glob for contract in task.contracts if isinstance(contract, TestsContract) for glob in contract.sources
    ]
    graded = (one for one in sandbox.changes if any(fnmatchcase(one.path, glob) for glob in sources))
    return [change.model_dump(mode="json") for change in graded]


def covered_change(row: LedgerRow) -> JsonObject:
    """As much of a change of the world as the digest covers. ``caused_by`` is the place of the agent's call, or
    what else brought it about."""
    place = agents_place(row.cause) if row.cause_kind == "delivery" else None
    return {
        **row.model_dump(mode="json", exclude={"position", "cause"}),
        "caused_by": list(place if place[2] else place[:2]) if place else row.cause_kind,
    }


def covered_receipt(receipt: Receipt) -> JsonObject:
    """As much of a receipt as the digest covers."""
    return receipt.model_dump(mode="json", exclude={"delivery_id"})


def covered_job(job: Job) -> JsonObject:
    """As much of a deferred job as the digest covers."""
    return job.model_dump(mode="json", exclude={"job_id", "created_by"})


@dataclass(frozen=True)
class Trace:
    """A whole episode with its task and the world's tools: all that is needed to grade it, now and again."""

    task: Task
    tools: tuple[ToolSpec, ...]
    evidence: Evidence


_ROWS = ("deliveries", "ledger", "receipts", "jobs", "late", "before_drain", "changes", "initial")
"""Parts of the facts that get a line for each of their rows, in this order."""


def trace_lines(trace: Trace) -> Iterator[bytes]:
    """The trace as canonical JSON Lines; equal traces give equal bytes.

    A header, then a line for each turn and each row of the facts, then one each for task and tools. Grades are not
    in it: they are made from it, and kept with the records.
    """
    evidence = trace.evidence.model_dump(mode="json")
    facts, turns = evidence.pop("facts"), evidence.pop("turns")
    rows = {part: facts.pop(part) for part in _ROWS}
    yield _line("header", {"format": FORMAT, "evidence": evidence, "facts": facts})
    for part, values in {"turn": turns, **rows}.items():
        for value in values:
            yield _line(part, value)
    yield _line("task", trace.task)
    yield _line("tools", list(trace.tools))


def pack(trace: Trace) -> bytes:
    """The archived trace: its lines, compressed without a time stamp, so that equal traces are equal objects."""
    return gzip.compress(b"".join(trace_lines(trace)), compresslevel=6, mtime=0)


def unpack(data: bytes) -> Trace:
    """The trace of ``pack``. Raises ``BadInput``."""
    try:
        lines = gzip.decompress(data).splitlines(keepends=True)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"is not a compressed trace: {error}", field="trace") from None
    return read_trace(lines)


def _line(line: str, value: Any) -> bytes:
    return canonical({"line": line, "value": value}) + b"\n"


def read_trace(lines: Iterable[bytes]) -> Trace:
    """The trace of ``trace_lines``. Raises ``BadInput`` naming the line."""
    parts: dict[str, list[Any]] = {"turn": [], **{part: [] for part in _ROWS}}
    single: dict[str, Any] = {}
    for number, line in enumerate(lines, start=1):
        name, value = _parsed(number, line)
        if name in parts:
            parts[name].append(value)
        else:
            single[name] = value
    if missing := sorted({"header", "task", "tools"} - single.keys()):
        raise BadInput(f"the trace has no line {missing[0]!r}", field="trace", fix="it was cut; fetch it again")
    if single["header"].get("format") != FORMAT:
        raise BadInput(f"is of format {single['header'].get('format')!r}, not {FORMAT}", field="trace: header")
    return _assembled(parts, single)


def _parsed(number: int, line: bytes) -> tuple[str, Any]:
    try:
        parsed = json.loads(line)
        name, value = parsed["line"], parsed["value"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadInput(f"is not a line of a trace: {error!r}", field=f"trace: line {number}") from None
    if not isinstance(name, str) or (name in ("header", "task") and not isinstance(value, dict)):
        raise BadInput("is not a line of a trace", field=f"trace: line {number}")
    return name, value


def _assembled(parts: Mapping[str, list[Any]], single: Mapping[str, Any]) -> Trace:
    header = single["header"]
    try:
        facts = {**header["facts"], **{part: parts[part] for part in _ROWS}}
        evidence = {**header["evidence"], "facts": facts, "turns": parts["turn"]}
        return Trace(
            task=_model(Task, single["task"]),
            tools=tuple(_model(ToolSpec, tool) for tool in single["tools"]),
            evidence=_model(Evidence, evidence),
        )
    except (ValidationError, TypeError, KeyError) as error:
        raise BadInput(f"does not hold a trace: {error}", field="trace") from None


def _model(kind: type[Any], value: Any) -> Any:
    return kind.model_validate_json(canonical(value))
