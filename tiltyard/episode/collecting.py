"""The end of a sandbox: settle, seal, drain, and what it leaves as evidence."""

from collections.abc import Sequence

from schemas.checkpoint import Manifest
from schemas.evidence import SandboxEvidence
from schemas.journal import TurnRecord
from schemas.sandbox import SandboxPlan, SandboxRef
from schemas.sandbox_facts import SandboxDrain, SandboxFacts
from schemas.task import Task
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.phases import PhaseClock
from tiltyard.episode.sandboxing import Checkpoints, checkpoint_of, has_unsaved
from tiltyard.errors import SandboxLost
from tiltyard.ports import Objects, Sandboxes
from tiltyard.sandbox.files import changes, start_of
from tiltyard.sandbox.keeping import keep, look_up


class SandboxCloser:
    """Closes sandboxes. After ``close`` no process of the episode is left, and its files are evidence."""

    def __init__(self, sandboxes: Sandboxes, reconciler: Reconciler, objects: Objects) -> None:
        self._sandboxes = sandboxes
        self._reconciler = reconciler
        self._objects = objects
        self._checkpoints = Checkpoints(sandboxes, reconciler, objects)

    async def close(
        self, sandbox: SandboxRef, plan: SandboxPlan, turns: Sequence[TurnRecord], settle: bool, took: PhaseClock
    ) -> SandboxEvidence:
        """A repeat goes on where it stopped. Raises ``SandboxLost`` and ``SandboxUnreachable``."""
        reach = self._reconciler.until_reply
        if settle and plan.settle_s:
            with took.phase("settle"):
                await reach(lambda: self._sandboxes.settle(sandbox, plan.settle_s))
        with took.phase("seal"):
            await reach(lambda: self._sandboxes.seal(sandbox))
        with took.phase("drain"):
            await reach(lambda: self._sandboxes.drain(sandbox))
        with took.phase("collect"):
            facts = await reach(lambda: self._sandboxes.facts(sandbox))
            name, files = await self._checkpoints.save(sandbox, plan, checkpoint_of(turns), whole=True)
        return _evidence(plan, name, files, facts)

    async def drained(self, sandbox: SandboxRef) -> SandboxDrain:
        """What the drain of a lost sandbox found and ended, from outside perhaps; nothing where there was none."""
        try:
            return await self._reconciler.until_reply(lambda: self._sandboxes.drain(sandbox))
        except SandboxLost:
            return SandboxDrain()

    async def kept(self, sandbox: SandboxRef, task: Task, turns: Sequence[TurnRecord]) -> SandboxEvidence | None:
        """What a lost sandbox is judged by: its files as they were kept after the last turn.

        ``None`` where they were not kept, where the task wants no restored files, and where it waits for background
        work, which is lost. Without that wait, the seal could have come when the files were kept.
        """
        plan = task.sandbox
        if plan is None or plan.on_loss != "restore" or plan.settle_s or has_unsaved(task, turns):
            return None
        name, files = await self._last_kept(plan, turns)
        return _evidence(plan, name, files, await self._said(sandbox)).model_copy(update={"lost": True})

    async def without_files(self, sandbox: SandboxRef) -> SandboxEvidence:
        """Of a sandbox that is lost with all that was in it."""
        return SandboxEvidence(facts=await self._said(sandbox), lost=True)

    async def _said(self, sandbox: SandboxRef) -> SandboxFacts:
        """What a lost sandbox had written down; nothing where that is gone with its host."""
        try:
            return await self._reconciler.until_reply(lambda: self._sandboxes.facts(sandbox))
        except SandboxLost:
            return SandboxFacts(driver=sandbox.driver, incarnation=sandbox.incarnation)

    async def given_up(
        self, plan: SandboxPlan, turns: Sequence[TurnRecord], said: Sequence[SandboxFacts]
    ) -> SandboxEvidence:
        """What an episode is judged by that ends while its sandbox is given up: the files that were kept of it.
        ``said`` is by each that was given up, the last one at the end."""
        name, files = await self._last_kept(plan, turns)
        return _evidence(plan, name, files, said[-1]).model_copy(update={"earlier": tuple(said[:-1])})

    async def _last_kept(self, plan: SandboxPlan, turns: Sequence[TurnRecord]) -> tuple[str, Manifest]:
        if name := checkpoint_of(turns):
            return name, await look_up(self._objects, name)
        return await keep(self._objects, start_of(plan), start_of(plan))


def _evidence(plan: SandboxPlan, name: str, kept: Manifest, facts: SandboxFacts) -> SandboxEvidence:
    return SandboxEvidence(
        facts=facts,
        changes=changes(start_of(plan), kept.files),
        skipped=kept.files.skipped,
        snapshot=name,
        packs=tuple(pack.name for pack in kept.packs),
    )
