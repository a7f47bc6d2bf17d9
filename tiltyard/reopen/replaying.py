"""Replays: the decisions of an episode that has ended, made again in a fresh environment, and what they showed."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.episode import EpisodeResult, EpisodeSpec, Origin, PolicySpec
from schemas.recording import RECORDED, Recording
from schemas.replay import Verdict
from schemas.sandbox import DriverName
from schemas.task import Task
from tiltyard.episode.tasks import TaskShelf
from tiltyard.policies.recorded import keep
from tiltyard.ports import Objects, Records
from tiltyard.reopen.kept import no_such_episode, not_ended, task_of, trace_of
from tiltyard.reopen.recording import recording_of
from tiltyard.reopen.verdicts import Played, verdict_of, without_facts


@dataclass(frozen=True)
class Original:
    """An episode that can be replayed: ``task`` is the stored one."""

    spec: EpisodeSpec
    task: Task
    played: Played
    recording: Recording


class Replaying:
    """Plans replays, and says what came of them. It plays none itself: a replay is an episode like any other."""

    def __init__(self, records: Records, objects: Objects) -> None:
        self._records = records
        self._objects = objects
        self._tasks = TaskShelf(objects)

    async def original(self, episode_id: str) -> Original:
        """The episode. Raises ``BadInput`` for one that is not there, has not ended, or was recorded without facts,
        ``InputMissing`` where its trace or its task is gone or damaged, and ``ObjectsUnreachable``."""
        spec, result = await self._records.spec(episode_id), await self._records.result(episode_id)
        if spec is None:
            raise no_such_episode(episode_id)
        if result is None:
            raise not_ended(episode_id)
        trace = await trace_of(result, self._objects)
        return Original(spec, await task_of(spec, self._tasks), Played(result, trace), recording_of(trace))

    async def plan(
        self,
        original: Original,
        episode_id: str,
        *,
        task: Task | None = None,
        sandbox: DriverName | None = None,
    ) -> EpisodeSpec:
        """The replay ``episode_id``; nothing runs yet. It is of the stored task and driver, or of these."""
        spec, wanted = original.spec, task or original.task
        return EpisodeSpec(
            episode_id=episode_id,
            task_id=wanted.id,
            task_digest=spec.task_digest if task is None else await self._tasks.store(task),
            world=wanted.world,
            policy=PolicySpec(target=RECORDED, digest=await keep(self._objects, original.recording)),
            seed=spec.seed,
            limits=spec.limits if task is None else task.limits,
            sandbox=(sandbox or spec.sandbox) if wanted.needs_sandbox else None,
            origin=Origin(kind="replay", episode_id=spec.episode_id, turn=spec.kept_turns),
        )

    async def plan_all(
        self,
        original: Original,
        episode_ids: Sequence[str],
        *,
        task: Task | None = None,
        sandbox: DriverName | None = None,
    ) -> list[EpisodeSpec]:
        """A replay for each of these ids, all alike; what they share is stored once."""
        first = await self.plan(original, episode_ids[0], task=task, sandbox=sandbox)
        return [first.model_copy(update={"episode_id": one}) for one in episode_ids]

    async def verdict(self, original: Original, result: EpisodeResult, *, strict: bool = False) -> Verdict:
        """What the replay with this outcome found. Raises ``EnvironmentFailed`` where it came to no end of its own,
        and as ``trace_of`` does for its trace."""
        if not result.trace:
            return without_facts(original.played.result, result)
        trace = await trace_of(result, self._objects)
        return verdict_of(original.played, Played(result, trace), original.recording, strict=strict)
