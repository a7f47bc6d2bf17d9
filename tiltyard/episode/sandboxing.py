"""The sandbox of an episode: provisioned, checkpointed at turn boundaries, made anew when it was lost."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence

from schemas.branch import Inherited
from schemas.checkpoint import Manifest
from schemas.journal import TurnRecord
from schemas.sandbox import DriverName, SandboxOrder, SandboxPlan, SandboxRef, Snapshot
from schemas.start import Provisioned, ProvisionOrder
from schemas.task import Task
from schemas.world import Owner
from tiltyard.episode.delivery import Reconciler
from tiltyard.episode.inheritance import load_inherited
from tiltyard.errors import (
    BadInput,
    EnvironmentFailed,
    ObjectsUnreachable,
    SandboxLost,
    SandboxUnavailable,
)
from tiltyard.ports import Journal, Objects, Sandboxes
from tiltyard.sandbox.files import marks_of, start_of
from tiltyard.sandbox.keeping import EMPTY, WholeManifest, fetch, keep, known_to, look_up_whole
from tiltyard.sandbox.tools import may_change_files


class Sandboxing:
    """Sandboxes belong to workflows, as leases do: they outlive the worker that asked for them."""

    def __init__(
        self,
        sandboxes: Sandboxes,
        reconciler: Reconciler,
        journal: Journal,
        objects: Objects,
        load_task: Callable[[str], Awaitable[Task]],
        cluster: str,
        temporal_namespace: str,
    ) -> None:
        self._sandboxes = sandboxes
        self._reconciler = reconciler
        self._journal = journal
        self._objects = objects
        self._load_task = load_task
        self._place = (cluster, temporal_namespace)

    async def provision(self, order: ProvisionOrder, workflow_id: str) -> Provisioned:
        """The asked-for incarnation, with the task's files or those of the last checkpoint; again: the same one.

        Raises ``SandboxUnavailable`` where the machine cannot make one, for a driver that the task refuses, and for
        files that are not in the object store any more;
        ``SandboxLost`` for an incarnation that is gone, of which nothing is left then.
        """
        task = await self._load_task(order.spec.task_digest)
        plan, driver = task.sandbox, order.spec.sandbox
        assert plan is not None
        assert driver is not None
        _refuse(driver, task, plan)
        inherited = await self._inherited(order)
        saved_turn, checkpoint = await self._saved(order, inherited)
        from_turn = max(order.spec.kept_turns - 1, saved_turn)  # a fork makes up for the rest before its first turn
        start = await self._restored(saved_turn, checkpoint, plan) if checkpoint else start_of(plan)
        wanted = self._wanted(order, workflow_id, driver, plan, start)
        try:
            ref = await self._reconciler.until_reply(lambda: self._sandboxes.provision(wanted))
        except SandboxLost:  # the next one may be made on another host, and this one must not hold its slot here
            await self.release(SandboxRef(driver=wanted.driver, name=wanted.name, incarnation=wanted.incarnation))
            raise
        return Provisioned(
            sandbox=ref,
            from_turn=None if from_turn < 0 else from_turn,
            may_give_up=plan.while_waiting == "give_up",
            earlier=inherited.earlier,
            missing=inherited.lost,
        )

    def _wanted(
        self, order: ProvisionOrder, workflow_id: str, driver: DriverName, plan: SandboxPlan, start: Snapshot
    ) -> SandboxOrder:
        cluster, temporal_namespace = self._place
        return SandboxOrder(
            driver=driver,
            name=order.spec.episode_id,
            incarnation=order.incarnation,
            owner=Owner(
                cluster=cluster,
                temporal_namespace=temporal_namespace,
                workflow_id=workflow_id,
                first_run_id=order.first_run_id,
            ),
            episode_id=order.spec.episode_id,
            image=plan.image,
            isolation=plan.isolation,
            start=start,
            marked=marks_of(plan, start),
            environment=plan.environment,
            limits=plan.limits,
            exposes=plan.exposes,
        )

    async def release(self, sandbox: SandboxRef) -> None:
        """Discard it; one that is gone is no error."""
        await self._reconciler.until_reply(lambda: self._sandboxes.release(sandbox))

    async def _inherited(self, order: ProvisionOrder) -> Inherited:
        """What a fork has of its parent."""
        if not order.spec.kept_turns:
            return Inherited()
        name = await self._journal.inherited(order.spec.episode_id, order.generation)
        return await load_inherited(self._objects, name)

    async def _saved(self, order: ProvisionOrder, inherited: Inherited) -> tuple[int, str]:
        """(the turn, the name of its checkpoint) with the files to begin with; -1 for the task's own."""
        if order.incarnation == 1 or not order.generation:  # the first one has no checkpoint of its own yet
            return -1 if inherited.saved_turn is None else inherited.saved_turn, inherited.checkpoint
        saved = last_checkpoint(await self._journal.read(order.spec.episode_id, order.generation))
        return (-1, "") if saved is None else (saved.turn, saved.checkpoint)

    async def _restored(self, turn: int, checkpoint: str, plan: SandboxPlan) -> Snapshot:
        """The files that were kept. What is missing or damaged will not be found by trying again."""
        try:
            return await fetch(self._objects, checkpoint, start_of(plan))
        except ObjectsUnreachable:
            raise
        except (EnvironmentFailed, BadInput) as error:
            why = f"the files kept after turn {turn} cannot be brought back: {error}"
            raise SandboxUnavailable(why) from error


def _refuse(driver: DriverName, task: Task, plan: SandboxPlan) -> None:
    """Raise ``SandboxUnavailable`` for a driver without isolation where the task relies on some."""
    if driver == "unsafe-local" and task.hides_tests:
        raise SandboxUnavailable("unsafe-local isolates nothing, and the task has hidden tests")
    if driver == "unsafe-local" and plan.exposes:
        raise SandboxUnavailable("unsafe-local has no network of its own, and the task serves its world in one")


def last_checkpoint(turns: Sequence[TurnRecord]) -> TurnRecord | None:
    """The newest turn after which the sandbox's files were kept."""
    return next((turn for turn in reversed(turns) if turn.checkpoint), None)


def checkpoint_of(turns: Sequence[TurnRecord]) -> str:
    """The name of the last checkpoint, or nothing."""
    saved = last_checkpoint(turns)
    return saved.checkpoint if saved is not None else ""


def has_unsaved(task: Task, turns: Sequence[TurnRecord]) -> bool:
    """Whether files may have changed since the last checkpoint."""
    since = itertools.takewhile(lambda turn: not turn.checkpoint, reversed(turns))
    return any(may_change_files(task, call.tool) for turn in since for call in turn.decision.calls)


class Checkpoints:
    """Keeps a sandbox's files as objects, so that a lost host costs the processes and not the work."""

    def __init__(self, sandboxes: Sandboxes, reconciler: Reconciler, objects: Objects) -> None:
        self._sandboxes = sandboxes
        self._reconciler = reconciler
        self._objects = objects

    async def save(
        self, sandbox: SandboxRef, plan: SandboxPlan, last: str, *, whole: bool = False
    ) -> tuple[str, Manifest]:
        """(the name of a manifest of all files as they are now, the manifest). Only what is neither the task's nor
        kept by ``last``, the name of an earlier one or nothing, is sent and stored; ``whole`` has it named by a
        manifest that needs no other one."""
        start, (base, stored) = start_of(plan), await self._base(last)
        known = await asyncio.to_thread(known_to, start, base)
        snapshot = await self._reconciler.until_reply(lambda: self._sandboxes.snapshot(sandbox, known))
        return await keep(self._objects, snapshot, start, base, None if whole else stored)

    async def not_kept(self, last: str) -> tuple[str, ...]:
        """What the checkpoint ``last`` leaves out, each with why; nothing for no checkpoint."""
        return (await self._base(last))[0].files.skipped

    async def _base(self, last: str) -> tuple[Manifest, WholeManifest | None]:
        """The last manifest. One that is missing or damaged is no base: then everything is kept anew."""
        if not last:
            return EMPTY, None
        try:
            return await look_up_whole(self._objects, last)
        except ObjectsUnreachable:
            raise
        except (EnvironmentFailed, BadInput):
            return EMPTY, None
