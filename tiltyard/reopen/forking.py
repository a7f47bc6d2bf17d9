"""Forks: planned from an episode that has ended or goes on."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from schemas.episode import EpisodeSpec, Origin, PolicySpec
from schemas.journal import TurnRecord
from schemas.sandbox import DriverName
from schemas.task import Task
from schemas.view import Budgets
from tiltyard.episode.progress import Progress
from tiltyard.episode.tasks import TaskShelf
from tiltyard.errors import BadInput
from tiltyard.ports import Journal, Objects, Records
from tiltyard.reopen.branching import require_turn
from tiltyard.reopen.kept import no_such_episode, require_trace, trace_of


class Changes(TypedDict, total=False):
    """What a fork has of its own. What is not given, or ``None``, is as it was with its parent."""

    task: Task | None
    policy: PolicySpec | None
    seed: int | None
    sandbox: DriverName | None


class Forking:
    """Plans forks. It plays none itself: a fork is an episode like any other."""

    def __init__(self, records: Records, journal: Journal, objects: Objects) -> None:
        self._records = records
        self._journal = journal
        self._objects = objects
        self._tasks = TaskShelf(objects)

    async def plan(self, parent: str, turn: int, episode_id: str, **own: Unpack[Changes]) -> EpisodeSpec:
        """The fork ``episode_id`` of ``parent`` before its turn ``turn``; nothing runs yet.

        Raises ``BadInput`` for an episode or a turn that it cannot begin with, and for limits that leave it no
        turn; ``InputMissing`` where the trace of one that has ended is gone or damaged; ``ObjectsUnreachable``.
        """
        spec = await self._records.spec(parent)
        if spec is None:
            raise no_such_episode(parent)
        task, sandbox = own.get("task"), own.get("sandbox")
        await self._require_beginning(spec, turn, task)
        given = {"policy": own.get("policy"), "seed": own.get("seed"), "sandbox": spec.sandbox and sandbox}
        changes = {
            "episode_id": episode_id,
            "origin": Origin(kind="fork", episode_id=parent, turn=turn),
            **({} if task is None else {"task_digest": await self._tasks.store(task), "limits": task.limits}),
            **{name: value for name, value in given.items() if value is not None},
        }
        return spec.model_copy(update=changes)

    async def _require_beginning(self, spec: EpisodeSpec, turn: int, task: Task | None) -> None:
        result = await self._records.result(spec.episode_id)
        if result is not None and turn < result.counts.turns and task is None:
            await require_trace(
                result, self._objects
            )  # all before it have ended, and ended nothing: no need to open it
            return
        if result is not None:
            turns = (await trace_of(result, self._objects)).evidence.turns
        else:
            generation = await self._journal.newest(spec.episode_id)
            turns = await self._journal.read(spec.episode_id, generation)
        require_turn(turns, turn)
        if task is not None:
            _require_room(task, turns[:turn])


def _require_room(task: Task, kept: Sequence[TurnRecord]) -> None:
    """Raises ``BadInput`` naming a limit that the turns which stay have used up: nothing would be decided."""
    left = Progress(task, kept).left()
    for name in Budgets.model_fields:
        if getattr(left, name) == 0:
            why = f"is used up by the {len(kept)} turns that stay"
            raise BadInput(why, field=f"limits.{name}", fix="give more, or branch at an earlier turn")
