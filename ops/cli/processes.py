"""What a sandbox told of one episode, as a person reads it: its programs as a tree, and what they reached for."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ops.cli.counting import counted
from ops.cli.looking import ended
from ops.cli.output import Output
from ops.cli.visible import visible_cell
from schemas.evidence import SandboxEvidence
from schemas.sandbox_facts import SandboxFacts
from schemas.told import CommandRecord, ConnectionAttempt, MarkedRead, ProcessRecord
from tiltyard.errors import BadInput
from tiltyard.graders.trial import agents_place, told_place
from tiltyard.reopen.kept import trace_of
from workers.bootstrap.objects import open_objects
from workers.settings import Settings

LONGEST = 160
"""Characters that are shown of one command; JSON has the whole."""


class Node(NamedTuple):
    """A program, and those that it started or became."""

    program: ProcessRecord
    children: "list[Node]"


async def show_processes(home: Path | None, episode_id: str, out: Output) -> None:
    """Print what the sandbox of an episode told. Raises ``BadInput`` where there is nothing that it could tell."""
    settings = Settings.from_environment(home)
    result = await ended(settings, episode_id)
    with open_objects(settings) as objects:
        sandbox = (await trace_of(result, objects)).evidence.sandbox
    if sandbox is None:
        raise BadInput("had no sandbox", field=episode_id, fix="leave --processes out")
    out.value(as_json(episode_id, sandbox))
    out.show("\n".join(lines_of(sandbox)), fold=False)


def as_json(episode_id: str, sandbox: SandboxEvidence) -> dict[str, Any]:
    """All of it: one entry for each incarnation that the episode had."""
    told = [facts.model_dump(mode="json") for facts in (*sandbox.earlier, sandbox.facts)]
    return {"episode_id": episode_id, "lost": sandbox.lost, "incarnations": told}


def lines_of(sandbox: SandboxEvidence) -> Iterator[str]:
    """The same for people."""
    told = (*sandbox.earlier, sandbox.facts)
    for facts in told:
        if len(told) > 1 or facts.incarnation > 1:
            yield f"sandbox {facts.incarnation}"
        yield from _of_incarnation(facts)


def _of_incarnation(facts: SandboxFacts) -> Iterator[str]:
    yield from operation_lines(facts.commands, facts.processes)
    if facts.processes_not_kept:
        yield f"and {counted(facts.processes_not_kept, 'program')} more"
    yield from reaching_lines(facts.marked_reads, facts.connections)
    yield from _unknown(facts)


def operation_lines(commands: Sequence[CommandRecord], programs: Sequence[ProcessRecord]) -> Iterator[str]:
    """Operations in order, each with the programs that descend from it."""
    by_operation: dict[str, list[ProcessRecord]] = {one.op_id: [] for one in commands}
    for program in programs:
        by_operation.setdefault(program.op_id, []).append(program)
    by_id = {one.op_id: one for one in commands}
    for op_id, its_programs in by_operation.items():
        yield "; ".join((place_of(op_id), *_what(by_id.get(op_id), its_programs)))
        for root in tree(its_programs):
            yield from _drawn(root)


def reaching_lines(reads: Sequence[MarkedRead], attempts: Sequence[ConnectionAttempt]) -> Iterator[str]:
    """What was reached for."""
    yield from map(_reading, reads)
    yield from map(_attempt, attempts)


def place_of(op_id: str) -> str:
    """Which call of the agent's it was."""
    place = agents_place(op_id)
    return told_place(place) if place else "of no call that is known"


def _what(command: CommandRecord | None, programs: Sequence[ProcessRecord]) -> Iterator[str]:
    """What it was, unless its programs say so, and how it ended."""
    if command is None:
        return
    if command.do != "exec":
        yield f"{command.do} {_cut(command.path)}"
    elif not programs:
        yield _cut(_joined(command.argv))
    if not command.ended:
        yield "did not end"
    elif command.signal or command.exit_code is not None:
        yield command.signal or f"exit code {command.exit_code}"
    for name, output in (("stdout", command.stdout), ("stderr", command.stderr)):
        if output is not None and output.total_bytes:
            yield f"{name} {counted(output.total_bytes, 'byte')}"


def tree(programs: Sequence[ProcessRecord]) -> list[Node]:
    """The programs under those that started them. One that a process became stands under the one it was before."""
    roots: list[Node] = []
    newest: dict[int, Node] = {}
    for program in programs:
        before = newest.get(program.pid)
        became = before is not None and program.started_s == before.program.ended_s is not None
        above = before if became else newest.get(program.parent)
        node = newest[program.pid] = Node(program, [])
        (roots if above is None else above.children).append(node)
    return roots


def _drawn(root: Node) -> Iterator[str]:
    """A line for each, without recursion: what an agent starts may be deep."""
    todo = [(root, "", "")]
    while todo:
        node, mark, indent = todo.pop()
        yield f"{_times(node.program)} {node.program.pid:>6}  {indent}{mark}{_named(node.program)}"
        inner = indent + {"": "", "├─ ": "│  ", "└─ ": "   "}[mark]
        last = len(node.children) - 1
        below = [(child, "└─ " if at == last else "├─ ", inner) for at, child in enumerate(node.children)]
        todo += reversed(below)


def _times(one: ProcessRecord) -> str:
    began = f"{one.started_s:.2f} s" if one.started_s is not None else "?"
    known = one.started_s is not None and one.ended_s is not None
    return f"{began:>10} {f'{(one.ended_s or 0) - (one.started_s or 0):.2f} s' if known else '?':>9}"


def _named(one: ProcessRecord) -> str:
    return _cut(_joined(one.argv) or "(unknown)") + ("  (left behind)" if one.left else "")


def _joined(argv: Sequence[str]) -> str:
    """As one would type it, with the quotes that read best."""
    plain = (one == shlex.quote(one) for one in argv)
    double = (f'"{one}"' if not set(one) & set('"$`\\!') else shlex.quote(one) for one in argv)
    return " ".join(one if is_plain else quoted for one, is_plain, quoted in zip(argv, plain, double, strict=True))


def _cut(text: str) -> str:
    shown = visible_cell(text)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"


def _reading(one: MarkedRead) -> str:
    who = f" by process {one.pid}" if one.pid is not None else ""
    how = "read" if one.reads else "opened"
    return f"marked file {_cut(one.path)} {how}{who}{_when(one.first_s)}: {place_of(one.op_id)}"


def _attempt(one: ConnectionAttempt) -> str:
    host = f"[{one.address}]" if ":" in one.address else one.address or "an address that was not seen"
    asked = f", for the name {_cut(one.name)}" if one.name else ""
    times = f" {counted(one.count, 'time')}" if one.count > 1 else ""
    return f"tried to reach {host}:{one.port}{asked}{times}{_when(one.first_s)}: {place_of(one.op_id)}"


def _when(moment: float | None) -> str:
    return "" if moment is None else f" at {moment:.2f} s"


def _unknown(facts: SandboxFacts) -> Iterator[str]:
    """What there may be besides."""
    if facts.from_journal:
        yield "its supervisor had died: of its programs nothing is known"
    elif facts.watched == "snapshots":
        yield "this machine does not tell of each program: those are shown that were alive at a look"
    if facts.unwatched:
        yield f"whether these were opened is not known: {', '.join(map(_cut, facts.unwatched))}"
    if facts.reads_lost:
        yield "so much was opened that not every reading of a marked file was seen"
    more = (facts.marked_reads_not_kept, "reading of a marked file"), (facts.connections_not_kept, "attempt")
    for number, what in more:
        if number:
            yield f"{number} more of: {what}"
