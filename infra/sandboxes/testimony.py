"""What is known of a sandbox without its supervisor: what that one has written down, outside of the sandbox."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from schemas.base import Model
from schemas.sandbox_facts import SandboxFacts
from schemas.told import (
    MAX_TOLD_COMMANDS,
    MAX_TOLD_CONNECTIONS,
    MAX_TOLD_READS,
    CommandRecord,
    ConnectionAttempt,
    MarkedRead,
)

MAX_JOURNAL_BYTES = 256 * 2**20
"""Of a longer journal the beginning is read."""


class Reached(Model):
    """What was reached for in a sandbox: marked files, and somebody outside."""

    marked_reads: tuple[MarkedRead, ...] = ()
    connections: tuple[ConnectionAttempt, ...] = ()

    def then(self, later: "Reached") -> "Reached":
        """This, and what came later, as much as facts hold."""
        return Reached(
            marked_reads=(*self.marked_reads, *later.marked_reads)[:MAX_TOLD_READS],
            connections=(*self.connections, *later.connections)[:MAX_TOLD_CONNECTIONS],
        )


class Testimony(Model):
    """What a journal says. Of programs it says nothing, and of reads and attempts not how often."""

    commands: tuple[CommandRecord, ...] = ()
    commands_not_kept: int = 0
    reached: Reached = Reached()


def with_incarnation(reached: Reached, incarnation: int) -> Reached:
    """It was in this one."""
    of_it = {"incarnation": incarnation}
    return Reached(
        marked_reads=tuple(one.model_copy(update=of_it) for one in reached.marked_reads),
        connections=tuple(one.model_copy(update=of_it) for one in reached.connections),
    )


def with_earlier(facts: SandboxFacts, earlier: Reached) -> SandboxFacts:
    """The facts of an incarnation, with what was reached for in those before it."""
    said = Reached(marked_reads=facts.marked_reads, connections=facts.connections)
    own = with_incarnation(said, facts.incarnation)
    both = earlier.then(own)
    more_reads = len(earlier.marked_reads) + len(own.marked_reads) - len(both.marked_reads)
    more_connections = len(earlier.connections) + len(own.connections) - len(both.connections)
    return facts.model_copy(
        update={
            "marked_reads": both.marked_reads,
            "marked_reads_not_kept": facts.marked_reads_not_kept + more_reads,
            "connections": both.connections,
            "connections_not_kept": facts.connections_not_kept + more_connections,
        }
    )


def read_testimony(journal: Path) -> Testimony:
    """What a journal says, as far as it can be read; nothing where there is none. Its last line may be cut."""
    commands: dict[str, dict[str, Any]] = {}
    reads: list[MarkedRead] = []
    connections: list[ConnectionAttempt] = []
    for line in _lines(journal):
        try:
            match line.get("did"):
                case "accepted" | "started" | "ended":
                    _tell(commands, line)
                case "read_marked":
                    reads.append(_reading(line))
                case "reached":
                    connections.append(_attempt(line))
        except (ValidationError, LookupError, TypeError, AttributeError):
            continue  # a line that says nothing of its kind
    told = tuple(_valid(commands))
    return Testimony(
        commands=told[-MAX_TOLD_COMMANDS:],
        commands_not_kept=max(0, len(told) - MAX_TOLD_COMMANDS),
        reached=Reached().then(Reached(marked_reads=tuple(reads), connections=tuple(connections))),
    )


def _lines(journal: Path) -> Iterator[Mapping[str, Any]]:
    try:
        with journal.open("rb") as file:
            lines = file.read(MAX_JOURNAL_BYTES).splitlines()
    except OSError:
        return
    for line in lines:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict):
            yield said


def _tell(commands: dict[str, dict[str, Any]], line: Mapping[str, Any]) -> None:
    """Add to what is known of an operation."""
    if line["did"] == "accepted":
        commands[line["op"]] = {
            "op_id": line["op"],
            "request_digest": line["digest"],
            **{name: line[name] for name in ("do", "argv", "path")},
            "started": False,
            "ended": False,
        }
        return
    known = commands[line["op"]]
    known |= {line["did"]: True, f"{line['did']}_s": line["at_s"]}
    if ended := line.get("reply", {}).get("exec"):
        outputs = {
            name: {key: ended[name][key] for key in ("digest", "total_bytes")} for name in ("stdout", "stderr")
        }
        known |= {"exit_code": ended["exit_code"], "signal": ended["signal"], **outputs}


def _valid(commands: Mapping[str, dict[str, Any]]) -> Iterator[CommandRecord]:
    for fields in commands.values():
        try:
            yield CommandRecord.model_validate(fields)
        except ValidationError:
            continue


def _reading(line: Mapping[str, Any]) -> MarkedRead:
    return MarkedRead(
        path=line["path"], op_id=line["op_id"], pid=line["pid"], opens=1, reads=0, first_s=line["at_s"]
    )


def _attempt(line: Mapping[str, Any]) -> ConnectionAttempt:
    fields = {name: line[name] for name in ("address", "port", "name", "op_id")}
    return ConnectionAttempt(**fields, first_s=line["at_s"])
