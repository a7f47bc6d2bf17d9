"""The end of a sandbox: settle, seal, drain, and what it leaves as evidence."""

from schemas.evidence import SandboxEvidence
from schemas.sandbox import SandboxPlan, SandboxRef
from tiltyard.episode.delivery import Reconciler
from tiltyard.ports import Objects, Sandboxes
from tiltyard.sandbox.files import changes, digests, pack_snapshot, start_of


class SandboxCloser:
    """Closes sandboxes. After ``close`` no process of the episode is left, and its files are evidence."""

    def __init__(self, sandboxes: Sandboxes, reconciler: Reconciler, objects: Objects) -> None:
        self._sandboxes = sandboxes
        self._reconciler = reconciler
        self._objects = objects

    async def close(self, sandbox: SandboxRef, plan: SandboxPlan, settle: bool) -> SandboxEvidence:
        """A repeat goes on where it stopped. Raises ``SandboxLost`` and ``SandboxUnreachable``."""
        reach = self._reconciler.until_reply
        if settle and plan.settle_s:
            await reach(lambda: self._sandboxes.settle(sandbox, plan.settle_s))
        await reach(lambda: self._sandboxes.seal(sandbox))
        await reach(lambda: self._sandboxes.drain(sandbox))
        facts = await reach(lambda: self._sandboxes.facts(sandbox))
        start = start_of(plan)
        snapshot = await reach(lambda: self._sandboxes.snapshot(sandbox, digests(start)))
        return SandboxEvidence(
            facts=facts,
            changes=changes(start, snapshot),
            skipped=snapshot.skipped,
            snapshot=await self._objects.put(pack_snapshot(snapshot)),
        )
