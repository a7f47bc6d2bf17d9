"""Branching an episode: the state before one of its turns, from which another episode goes on."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from schemas.branch import BranchPoint, Past
from schemas.episode import EpisodeSpec, Origin
from schemas.journal import TurnRecord
from schemas.sandbox import DriverName
from schemas.sandbox_facts import SandboxFacts
from schemas.task import Task
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.said import NOT_SEEN, NOT_WATCHED, lost_with, said_until
from tiltyard.episode.sandboxing import has_unsaved, last_checkpoint
from tiltyard.errors import BadInput, EnvironmentFailed
from tiltyard.ports import Journal, Objects, Records, World
from tiltyard.reopen.kept import no_such_episode, trace_of
from tiltyard.reopen.past import past_of, until_turn
from tiltyard.sandbox.tools import is_command
from tiltyard.trace import Trace


@dataclass(frozen=True)
class Parent:
    """An episode to branch, ended or not, which ``began`` with so many turns of another. ``said`` is by its
    sandboxes, ``None`` while they are in use."""

    episode_id: str
    task: Task
    turns: tuple[TurnRecord, ...]
    world: Past
    said: tuple[SandboxFacts, ...] | None
    driver: DriverName | None = None
    began: int = 0

    @classmethod
    def of(cls, trace: Trace) -> "Parent":
        """An episode that has ended."""
        evidence, boxes = trace.evidence, trace.evidence.sandbox
        return cls(
            episode_id=evidence.spec.episode_id,
            task=trace.task,
            turns=evidence.turns,
            world=past_of(evidence.facts, evidence.spec.episode_id),
            said=() if boxes is None else (*boxes.earlier, boxes.facts),
            driver=evidence.spec.sandbox,
            began=evidence.spec.kept_turns,
        )


def branch_point(parent: Parent, turn: int) -> BranchPoint:
    """Its state before ``turn``. Raises ``BadInput`` for a turn that has no such state."""
    require_turn(parent.turns, turn)
    kept = parent.turns[:turn]
    files_from = _files_from(parent.task, kept)
    return BranchPoint(
        episode_id=parent.episode_id,
        turn=turn,
        turns=kept,
        world=until_turn(parent.world, turn),
        said=_said(parent, kept, files_from),
        lost=_lost(parent, kept, files_from),
    )


def _said(parent: Parent, kept: Sequence[TurnRecord], files_from: int | None) -> tuple[SandboxFacts, ...]:
    """What is told of the commands that are not run again. While the sandbox is in use that is not known, and so a
    read of a marked file may have gone unseen."""
    if parent.said is not None:
        return said_until(parent.said, 0 if files_from is None else files_from + 1)
    if parent.driver is None or parent.task.sandbox is None or not _ran(parent.task, kept, files_from):
        return ()
    return (SandboxFacts(driver=parent.driver, incarnation=0, reads_lost=bool(parent.task.sandbox.marked)),)


def _ran(task: Task, kept: Sequence[TurnRecord], files_from: int | None) -> bool:
    """Whether there are commands that are not run again."""
    turns = [] if files_from is None else kept[: files_from + 1]
    return any(is_command(task, call.tool) for turn in turns for call in turn.decision.calls)


def _files_from(task: Task, kept: Sequence[TurnRecord]) -> int | None:
    """The last turn that a sandbox made anew has the files of; ``None`` for the task's own. Later commands are run
    again."""
    if not has_unsaved(task, kept):
        return len(kept) - 1 if kept else None
    saved = last_checkpoint(kept)
    return saved.turn if saved is not None else None


def _lost(parent: Parent, kept: Sequence[TurnRecord], files_from: int | None) -> tuple[str, ...]:
    if parent.said is not None:
        return lost_with(parent.said, len(kept), files_from, parent.began)
    return (NOT_WATCHED, NOT_SEEN) if _ran(parent.task, kept, files_from) else ()


def require_turn(turns: Sequence[TurnRecord], turn: int) -> None:
    """Raises ``BadInput`` unless an episode with these turns can go on from ``turn``: all before it have ended, and
    none of them has ended the episode."""
    finished = [one for one in turns if one.observations is not None]
    last = finished[-1].decision if finished else None
    over = last is not None and (last.submit is not None or last.give_up is not None)
    most = len(finished) - over
    if not 0 <= turn <= most:
        raise BadInput(
            f"the episode cannot be branched at turn {turn}", field="--turn", fix=f"choose one from 0 to {most}"
        )


class Branching:
    """Finds what a fork begins with: in the trace of an episode that has ended, else in its journal and world."""

    def __init__(
        self,
        world: World,
        reconciler: Reconciler,
        journal: Journal,
        records: Records,
        objects: Objects,
        load_task: Callable[[str], Awaitable[Task]],
    ) -> None:
        self._world = world
        self._reconciler = reconciler
        self._journal = journal
        self._records = records
        self._objects = objects
        self._load_task = load_task

    async def point(self, origin: Origin) -> BranchPoint:
        """The state of the parent before the fork's turn.

        Raises ``BadInput`` for an episode or a turn without one, ``InputMissing`` where its trace is gone or
        damaged, and ``EnvironmentFailed`` for an episode that is between its end and its record: it has one in a
        moment.
        """
        spec, result = await self._records.spec(origin.episode_id), await self._records.result(origin.episode_id)
        if spec is None:
            raise no_such_episode(origin.episode_id)
        if result is None:
            return branch_point(await self._open(spec), origin.turn)
        parent = Parent.of(await trace_of(result, self._objects))
        return await asyncio.to_thread(branch_point, parent, origin.turn)

    async def _open(self, spec: EpisodeSpec) -> Parent:
        """An episode that goes on meanwhile: turns that have ended stay as they are."""
        leases = await self._reconciler.until_reply(self._world.leases)
        lease = next((one for one in leases if one.episode_id == spec.episode_id), None)
        if lease is None:
            raise EnvironmentFailed(f"the episode {spec.episode_id} has not begun yet, or ends just now")
        turns = await self._journal.read(spec.episode_id, lease.generation)
        world = await self._reconciler.until_reply(lambda: self._world.so_far(lease.namespace, lease.generation))
        return Parent(
            spec.episode_id, await self._load_task(spec.task_digest), turns, world, said=None, driver=spec.sandbox
        )
