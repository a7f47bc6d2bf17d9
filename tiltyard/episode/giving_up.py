"""A sandbox that an episode gives up while it waits: brought to an end as at the seal, and kept as objects."""

from collections.abc import Awaitable, Callable

from schemas.journal import Writer
from schemas.sandbox import SandboxRef
from schemas.sandbox_facts import SandboxFacts
from schemas.slice import GivenUp, GiveUpRequest
from schemas.task import Task
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.said import keep_said, said_earlier
from tiltyard.episode.sandboxing import Checkpoints, checkpoint_of, has_unsaved
from tiltyard.ports import Journal, Objects, Sandboxes


class GivingUp:
    """Ends sandboxes of episodes that wait. What they have said goes into the trace when the episode ends."""

    def __init__(
        self,
        sandboxes: Sandboxes,
        reconciler: Reconciler,
        checkpoints: Checkpoints,
        journal: Journal,
        objects: Objects,
        load_task: Callable[[str], Awaitable[Task]],
    ) -> None:
        self._sandboxes = sandboxes
        self._reconciler = reconciler
        self._checkpoints = checkpoints
        self._journal = journal
        self._objects = objects
        self._load_task = load_task

    async def give_up(self, request: GiveUpRequest, attempt_id: str) -> GivenUp:
        """Seal and drain it, and keep what it says and its files. Again: goes on where it stopped.

        It is still there, and the caller's to release. Files are those of the last checkpoint, as they were after
        the last turn, whatever a background process has done since: so equal episodes go on from equal files.
        Raises ``SandboxLost``, ``SandboxUnreachable``, ``Replaced`` and ``JournalClosed``.
        """
        key = request.spec.episode_id, request.lease.generation
        writer = Writer(run_id=request.run_id, slice_no=request.slice_no, attempt_id=attempt_id)
        await self._journal.take(*key, writer)
        task = await self._load_task(request.spec.task_digest)
        turns = await self._journal.read(*key)
        facts = await self._end(request.sandbox)
        ended = [turn for turn in turns if turn.observations is not None]
        if ended and task.sandbox is not None and has_unsaved(task, ended):
            name, _ = await self._checkpoints.save(request.sandbox, task.sandbox, checkpoint_of(ended))
            await self._journal.checkpoint(*key, writer, ended[-1].turn, name)
        earlier = (*await said_earlier(self._objects, request.earlier), facts)
        return GivenUp(
            from_turn=ended[-1].turn if ended else None,
            turns=len(turns),
            earlier=await keep_said(self._objects, earlier),
        )

    async def _end(self, sandbox: SandboxRef) -> SandboxFacts:
        reach = self._reconciler.until_reply
        await reach(lambda: self._sandboxes.seal(sandbox))
        await reach(lambda: self._sandboxes.drain(sandbox))
        return await reach(lambda: self._sandboxes.facts(sandbox))
