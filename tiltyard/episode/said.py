"""What the sandboxes of an episode have said: kept as objects, cut at a turn, and what of it is gone."""

from collections.abc import Sequence
from typing import TypeVar

from pydantic import TypeAdapter

from schemas.base import canonical
from schemas.sandbox_facts import SandboxFacts
from schemas.told import CommandRecord, ConnectionAttempt, MarkedRead, ProcessRecord
from tiltyard.graders.trial import agents_place
from tiltyard.ports import Objects

MAX_LOST, MAX_LOST_LENGTH = 20, 200
"""Processes that a fork is told it lacks, and characters of each."""

NOT_WATCHED = "processes that were running then, if there were any: they are not known"

NOT_SEEN = "what the commands until then opened and tried to reach: the parent had its sandbox still"

FACTS = TypeAdapter(tuple[SandboxFacts, ...])

ToldT = TypeVar("ToldT", CommandRecord, ProcessRecord, MarkedRead, ConnectionAttempt)


async def keep_said(objects: Objects, facts: Sequence[SandboxFacts]) -> str:
    """The name of an object with what several incarnations have said."""
    return await objects.put(canonical(list(facts)))


async def said_earlier(objects: Objects, name: str) -> tuple[SandboxFacts, ...]:
    """What ``keep_said`` named so; nothing under no name."""
    return FACTS.validate_json(await objects.get(name)) if name else ()


def said_until(said: Sequence[SandboxFacts], turn: int) -> tuple[SandboxFacts, ...]:
    """What belongs to turns before ``turn``. What belongs to none that is known is left out."""
    cut = (_until(facts, turn) for facts in said)
    return tuple(facts for facts in cut if facts.commands or facts.processes or facts.reads_lost)


def _until(facts: SandboxFacts, turn: int) -> SandboxFacts:
    return facts.model_copy(
        update={
            "commands": _of_turns(facts.commands, turn),
            "processes": _of_turns(facts.processes, turn),
            "marked_reads": _of_turns(facts.marked_reads, turn),
            "connections": _of_turns(facts.connections, turn),
        }
    )


def _of_turns(told: Sequence[ToldT], turn: int) -> tuple[ToldT, ...]:
    return tuple(one for one in told if _is_before(one.op_id, turn))


def _is_before(op_id: str, turn: int) -> bool:
    place = agents_place(op_id)
    return place is not None and place[0] < turn


def said_as(said: Sequence[SandboxFacts], before: str, after: str) -> tuple[SandboxFacts, ...]:
    """The same, with operation ids that begin with ``after`` in the place of ``before``."""

    def renamed(told: Sequence[ToldT]) -> tuple[ToldT, ...]:
        return tuple(one.model_copy(update={"op_id": after + one.op_id.removeprefix(before)}) for one in told)

    return tuple(
        facts.model_copy(
            update={
                "commands": renamed(facts.commands),
                "processes": renamed(facts.processes),
                "marked_reads": renamed(facts.marked_reads),
                "connections": renamed(facts.connections),
            }
        )
        for facts in said
    )


def lost_with(said: Sequence[SandboxFacts], turn: int, files_from: int | None, began: int) -> tuple[str, ...]:
    """The processes that were alive before ``turn`` and have no place in a sandbox that begins with the files as
    they were after the turn ``files_from``, each in a few words. Commands of later turns are run again, and so are
    the processes that they started; ``None``: all are. A fork that ``began`` with so many turns of its parent has
    missed the parent's processes already, and its policy was told."""
    ran = [facts for facts in said if _of_turns(facts.commands, turn)]
    if files_from is None or not ran:
        return ()
    last = ran[-1]
    if turn > began and _of_turns(last.commands, began) == last.commands:
        return ()
    if last.watched != "every_exec" or last.from_journal:
        return (NOT_WATCHED,)
    alive = _alive(last, _of_turns(last.processes, files_from + 1), turn)
    told = [f"a process of turn {_turn(one)}: {' '.join(one.argv)}"[:MAX_LOST_LENGTH] for one in alive[:MAX_LOST]]
    return (*told, *([f"and {len(alive) - MAX_LOST} more processes"] if len(alive) > MAX_LOST else []))


def _alive(facts: SandboxFacts, processes: Sequence[ProcessRecord], turn: int) -> list[ProcessRecord]:
    """Those that still ran when the first command of ``turn`` or of a later one began; at the seal if none did."""
    later = (command for command in facts.commands if not _is_before(command.op_id, turn))
    begun_s = min((command.started_s for command in later if command.started_s), default=None)
    if begun_s is None:
        return [one for one in processes if one.left]
    return [one for one in processes if one.ended_s is None or one.ended_s > begun_s]


def _turn(one: ProcessRecord) -> int:
    place = agents_place(one.op_id)
    assert place is not None
    return place[0]
