"""Forks: planned from an episode that has ended or goes on."""

from collections.abc import Awaitable, Callable
from typing import TypedDict, Unpack

from schemas.episode import EpisodeSpec, Origin, PolicySpec
from schemas.sandbox import DriverName
from schemas.task import Task
from tiltyard.episode.tasks import TaskShelf
from tiltyard.errors import BadInput
from tiltyard.ports import Objects, Records
from tiltyard.reopen.branching import require_turn
from tiltyard.reopen.kept import no_such_episode, require_trace, trace_of


class Changes(TypedDict, total=False):
    """What a fork has of its own. What is not given, or ``None``, is as it was with its parent."""

    task: Task | None
    policy: PolicySpec | None
    seed: int | None
    sandbox: DriverName | None


class Forking:
    """Plans forks. It plays none itself: a fork is an episode like any other.

    ``turns_so_far`` says how many turns an episode that goes on has had.
    """

    def __init__(self, records: Records, objects: Objects, turns_so_far: Callable[[str], Awaitable[int]]) -> None:
        self._records = records
        self._objects = objects
        self._turns_so_far = turns_so_far
        self._tasks = TaskShelf(objects)

    async def plan(self, parent: str, turn: int, episode_id: str, **own: Unpack[Changes]) -> EpisodeSpec:
        """The fork ``episode_id`` of ``parent`` before its turn ``turn``; nothing runs yet.

        Raises ``BadInput`` for an episode or a turn that it cannot begin with, ``InputMissing`` where the trace
        of one that has ended is gone or damaged, and ``ObjectsUnreachable``.
        """
        spec = await self._records.spec(parent)
        if spec is None:
            raise no_such_episode(parent)
        await self._require_beginning(spec, turn)
        task, sandbox = own.get("task"), own.get("sandbox")
        given = {"policy": own.get("policy"), "seed": own.get("seed"), "sandbox": spec.sandbox and sandbox}
        changes = {
            "episode_id": episode_id,
            "origin": Origin(kind="fork", episode_id=parent, turn=turn),
            **({} if task is None else {"task_digest": await self._tasks.store(task), "limits": task.limits}),
            **{name: value for name, value in given.items() if value is not None},
        }
        return spec.model_copy(update=changes)

    async def _require_beginning(self, spec: EpisodeSpec, turn: int) -> None:
        """Whether an episode that goes on has come so far is all that can be told of it from here."""
        result = await self._records.result(spec.episode_id)
        if result is None:
            if turn > (reached := await self._turns_so_far(spec.episode_id)):
                fix = f"choose one up to {reached}, or wait until it has come so far"
                raise BadInput(f"the episode has had {reached} turns so far", field="--turn", fix=fix)
        elif turn < result.counts.turns:  # all before it have ended, and ended nothing: no need to open the trace
            await require_trace(result, self._objects)
        else:
            require_turn((await trace_of(result, self._objects)).evidence.turns, turn)
