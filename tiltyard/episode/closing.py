"""The end of an episode: settle, seal, drain, collect. Each step may be repeated."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from schemas.evidence import Evidence, Reading
from schemas.journal import TurnRecord
from schemas.slice import CloseReport, CloseRequest
from schemas.task import WAIT, Task
from schemas.world import TOO_MANY_JOBS, DeliveryRequest, Facts
from tiltyard.episode.delivery import Reconciler, delivery_id
from tiltyard.errors import Fenced, NotSettled
from tiltyard.ports import Journal, Objects, Policies, World
from tiltyard.trace import Trace, pack


class Closer:
    """Closes leases. After ``close`` nothing of the episode can take effect, and all that did is evidence."""

    def __init__(
        self,
        world: World,
        reconciler: Reconciler,
        journal: Journal,
        objects: Objects,
        policies: Policies,
        load_task: Callable[[str], Awaitable[Task]],
    ) -> None:
        self._world = world
        self._reconciler = reconciler
        self._journal = journal
        self._objects = objects
        self._policies = policies
        self._load_task = load_task

    async def close(self, request: CloseRequest) -> CloseReport:
        """Settle, seal, drain and collect. A repeat goes on where it stopped.

        Raises ``WorldUnreachable`` and ``NotSettled``.
        """
        task = await self._load_task(request.spec.task_digest)
        episode_id = request.spec.episode_id
        namespace, generation = request.lease.namespace, request.lease.generation
        ended = await self._policies.close(episode_id)
        await self._journal.close(episode_id, generation)
        if request.settle and task.settle.limit_s:
            await self._settle(request, task.settle.limit_s)
        reach = self._reconciler.until_reply
        await reach(lambda: self._world.seal(namespace, generation))
        drain = await reach(lambda: self._world.drain(namespace, generation))
        facts, turns, tools = await asyncio.gather(
            reach(lambda: self._world.facts(namespace, generation, task.fact_collections)),
            self._journal.read(episode_id, generation),
            reach(lambda: self._world.describe(task.world)),
        )
        readings = read_in_flight(turns, facts, episode_id)
        evidence = Evidence(
            spec=request.spec,
            ending=request.ending,
            turns=turns,
            facts=facts,
            drain=drain.model_copy(update={"processes_found": ended.found, "ended_by_kill": ended.killed}),
            in_flight=readings,
        )
        name = await self._objects.put(pack(Trace(task, tools, evidence)))
        return CloseReport(trace=name, unknown=sum(reading == "unknown" for reading in readings.values()))

    async def _settle(self, request: CloseRequest, limit_s: int) -> None:
        """Let background work come due. The clock is moved by a delivery of the harness, so it moves once."""
        settle = DeliveryRequest(
            namespace=request.lease.namespace,
            generation=request.lease.generation,
            delivery_id=delivery_id(request.spec.episode_id, request.lease.generation, "settle", 0),
            tool=WAIT,
            arguments={"seconds": limit_s},
        )
        try:
            reply, _ = await self._reconciler.deliver(settle)
        except Fenced:
            return  # an earlier attempt has sealed: it had settled before
        if reply.shown.status != "ok" and reply.shown.code != TOO_MANY_JOBS:
            raise NotSettled(f"the wait before the seal was refused: {reply.shown.code}: {reply.shown.message}")


def read_in_flight(turns: Sequence[TurnRecord], facts: Facts, episode_id: str) -> dict[str, Reading]:
    """How the calls of the turn that was open at the seal are read (I2).

    A sealed world has either recorded a delivery, or never will. A record without an outcome is a ``wait``
    whose jobs are in the ledger one by one; of any other tool it is unknown.
    """
    if not turns or turns[-1].observations is not None:
        return {}
    records = {record.delivery_id: record for record in facts.deliveries}
    readings: dict[str, Reading] = {}
    for index in range(len(turns[-1].decision.calls)):
        sent = delivery_id(episode_id, facts.generation, turns[-1].turn, index)
        record = records.get(sent)
        known = record is not None and (record.reply is not None or record.tool == WAIT)
        readings[sent] = "absent" if record is None else "committed" if known else "unknown"
    return readings
