"""The end of an episode: settle, seal, drain, collect. Each step may be repeated."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from schemas.episode import End
from schemas.evidence import Evidence, Reading, SandboxEvidence
from schemas.journal import TurnRecord
from schemas.sandbox import SandboxRef
from schemas.sandbox_facts import SandboxDrain, SandboxFacts
from schemas.slice import CloseReport, CloseRequest, Ending
from schemas.task import WAIT, Task
from schemas.world import TOO_MANY_JOBS, DeliveryRequest, DrainReport, Facts
from tiltyard.episode.collecting import SandboxCloser
from tiltyard.episode.delivery import Reconciler, delivery_id
from tiltyard.episode.gateway import Clocks, Gateway
from tiltyard.episode.inheritance import load_inherited
from tiltyard.episode.known import KnownJournals
from tiltyard.episode.phases import PhaseClock
from tiltyard.episode.progress import Progress
from tiltyard.episode.said import said_earlier
from tiltyard.errors import Fenced, NotSettled, SandboxLost, SandboxOutOfMemory
from tiltyard.ports import Ended, Journal, Objects, Policies, World
from tiltyard.sandbox.tools import is_command
from tiltyard.trace import Trace, pack


class Closer:
    """Closes leases. After ``close`` nothing of the episode can take effect, and all that did is evidence.

    ``known`` is what slices here have left, of which nothing stays of an episode that is closed.
    """

    def __init__(
        self,
        world: World,
        reconciler: Reconciler,
        gateway: Gateway,
        sandboxes: SandboxCloser,
        journal: Journal,
        objects: Objects,
        policies: Policies,
        load_task: Callable[[str], Awaitable[Task]],
        known: KnownJournals | None = None,
    ) -> None:
        self._world = world
        self._reconciler = reconciler
        self._gateway = gateway
        self._sandboxes = sandboxes
        self._journal = journal
        self._objects = objects
        self._policies = policies
        self._load_task = load_task
        self._known = KnownJournals() if known is None else known

    async def close(self, request: CloseRequest) -> CloseReport:
        """Settle, seal, drain and collect. A repeat goes on where it stopped.

        Raises ``WorldUnreachable``, ``SandboxUnreachable`` and ``NotSettled``.
        """
        task = await self._load_task(request.spec.task_digest)
        episode_id = request.spec.episode_id
        ended = await self._policies.close(episode_id)
        await self._journal.close(episode_id, request.lease.generation)
        self._known.forget((episode_id, request.lease.generation))
        turns = await self._journal.read(episode_id, request.lease.generation)
        took = PhaseClock()
        ending, sandbox, ended_inside = await self._close_sandbox(request, task, turns, took)
        facts, drain = await self._close_world(request, task, Progress(task, turns).clocks, took)
        readings = read_in_flight(task, turns, facts, sandbox, episode_id)
        evidence = Evidence(
            spec=request.spec,
            ending=ending,
            turns=turns,
            facts=facts,
            drain=_whole_drain(drain, ended, ended_inside),
            in_flight={sent: reading for sent, (reading, _) in readings.items()},
            sandbox=sandbox,
            not_restored=await self._not_restored(request),
        )
        with took.phase("collect"):
            tools = await self._gateway.tools(task)
            packed = await asyncio.to_thread(pack, Trace(task, tools, evidence))  # seconds, for thousands of turns
            name = await self._objects.put(packed)
        unknown = sum(reading == "unknown" and in_world for reading, in_world in readings.values())
        return CloseReport(trace=name, unknown=unknown, timings=took.timings)

    async def _not_restored(self, request: CloseRequest) -> tuple[str, ...]:
        name = await self._journal.inherited(request.spec.episode_id, request.lease.generation)
        return (await load_inherited(self._objects, name)).lost

    async def _close_sandbox(
        self, request: CloseRequest, task: Task, turns: Sequence[TurnRecord], took: PhaseClock
    ) -> tuple[Ending, SandboxEvidence | None, SandboxDrain | None]:
        """How the episode ended, the sandbox's evidence, and what its drain ended."""
        if request.sandbox is None or task.sandbox is None:
            return request.ending, None, None
        earlier = await said_earlier(self._objects, request.earlier)
        if request.given_up:
            closed = await self._sandboxes.given_up(task.sandbox, turns, earlier)
            return request.ending, closed, closed.facts.drain
        try:
            closed = await self._sandboxes.close(request.sandbox, task.sandbox, turns, request.settle, took)
        except SandboxLost as error:
            ending, left = await self._lost(request.sandbox, request.ending, task, turns, error)
            left = await self._sandboxes.without_files(request.sandbox) if left is None and earlier else left
            return ending, _after(earlier, left), await self._sandboxes.drained(request.sandbox)
        return request.ending, _after(earlier, closed), closed.facts.drain

    async def _lost(
        self, sandbox: SandboxRef, ending: Ending, task: Task, turns: Sequence[TurnRecord], error: SandboxLost
    ) -> tuple[Ending, SandboxEvidence | None]:
        """Without files nothing can be said of the policy, unless it had the sandbox killed."""
        if ending.end in (End.CANCELLED, End.TERMINATED, End.ENVIRONMENT_ERROR):
            return ending, None
        starved = isinstance(error, SandboxOutOfMemory)
        kept = await self._sandboxes.kept(sandbox, task, turns)
        why = f"lost before its files were collected: {error}"
        if kept is None and not starved:
            return Ending.of(End.ENVIRONMENT_ERROR, why), None
        if kept is None:
            ending = Ending.of(ending.end, "; ".join(filter(None, (ending.reason, why))))
        left = kept or await self._sandboxes.without_files(sandbox)
        return ending, left.model_copy(update={"out_of_memory": starved})

    async def _close_world(
        self, request: CloseRequest, task: Task, clocks: Clocks, took: PhaseClock
    ) -> tuple[Facts, DrainReport]:
        namespace, generation = request.lease.namespace, request.lease.generation
        if request.settle and task.settle.limit_s:
            with took.phase("settle"):
                await self._settle(request, task.settle.limit_s, clocks)
        reach = self._reconciler.until_reply
        with took.phase("seal"):
            await reach(lambda: self._world.seal(namespace, generation))
        with took.phase("drain"):
            drain = await reach(lambda: self._world.drain(namespace, generation))
        with took.phase("collect"):
            facts = await reach(lambda: self._world.facts(namespace, generation, task.fact_collections))
        return facts, drain

    async def _settle(self, request: CloseRequest, limit_s: int, clocks: Clocks) -> None:
        """Let background work come due. The clock is moved by a delivery of the harness, so it moves once."""
        settle = DeliveryRequest(
            namespace=request.lease.namespace,
            generation=request.lease.generation,
            delivery_id=delivery_id(request.spec.episode_id, request.lease.generation, "settle", 0),
            tool=WAIT,
            arguments={"seconds": limit_s},
            elsewhere_s=clocks.elsewhere_s,
        )
        try:
            reply, _ = await self._reconciler.deliver(settle)
        except Fenced:
            return  # an earlier attempt has sealed: it had settled before
        if reply.shown.status != "ok" and reply.shown.code != TOO_MANY_JOBS:
            raise NotSettled(f"the wait before the seal was refused: {reply.shown.code}: {reply.shown.message}")


def _after(earlier: tuple[SandboxFacts, ...], sandbox: SandboxEvidence | None) -> SandboxEvidence | None:
    """The evidence with what incarnations before it have said."""
    return sandbox.model_copy(update={"earlier": earlier}) if sandbox is not None else None


def _whole_drain(world: DrainReport, policy: Ended, drain: SandboxDrain | None) -> DrainReport:
    """What was found and ended anywhere: in the world, of the policy, in the sandbox."""
    found = {"processes_found": policy.found, "ended_by_kill": policy.killed}
    if drain is not None:
        found = {
            "processes_found": policy.found + drain.found,
            "ended_by_term": drain.ended_by_term,
            "ended_by_kill": policy.killed + drain.ended_by_kill,
            "late_writes": world.late_writes + drain.refused,
            "empty": world.empty and drain.empty,
        }
    return world.model_copy(update=found)


def read_in_flight(
    task: Task, turns: Sequence[TurnRecord], facts: Facts, sandbox: SandboxEvidence | None, episode_id: str
) -> dict[str, tuple[Reading, bool]]:
    """How the calls of the turn that was open at the seal are read (I2), and whether each was one of the world.

    A sealed world has either recorded a delivery, or never will. A record without an outcome is a ``wait``
    whose jobs are in the ledger one by one; of any other tool it is unknown. A command that had started and not
    ended is unknown, and so is every one of a sandbox that was lost.
    """
    if not turns or turns[-1].observations is not None:
        return {}
    in_world = _world_readings(facts)
    commands = None if sandbox is None or sandbox.lost else _command_readings(sandbox)
    readings: dict[str, tuple[Reading, bool]] = {}
    for index, call in enumerate(turns[-1].decision.calls):
        sent = delivery_id(episode_id, facts.generation, turns[-1].turn, index)
        if not is_command(task, call.tool):
            readings[sent] = (in_world.get(sent, "absent"), True)
        else:
            readings[sent] = ("unknown" if commands is None else commands.get(sent, "absent"), False)
    return readings


def _world_readings(facts: Facts) -> Mapping[str, Reading]:
    known = {record.delivery_id: record.reply is not None or record.tool == WAIT for record in facts.deliveries}
    return {sent: "committed" if outcome else "unknown" for sent, outcome in known.items()}


def _command_readings(sandbox: SandboxEvidence) -> Mapping[str, Reading]:
    return {
        command.op_id: "committed" if command.ended else "unknown" if command.started else "absent"
        for command in sandbox.facts.commands
    }
