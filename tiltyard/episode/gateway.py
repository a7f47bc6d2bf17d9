"""The way of one call: to the world, or to the episode's sandbox."""

import math
from dataclasses import dataclass
from datetime import timedelta

from schemas.decision import Call
from schemas.observation import Observation
from schemas.operation import WorldSeen
from schemas.sandbox import SandboxRef, WorldAccess
from schemas.slice import LeaseRef
from schemas.task import Task
from schemas.tool import ToolSpec
from schemas.world import DeliveryRequest, Shown
from tiltyard.episode.delivery import Reconciler
from tiltyard.errors import BadInput
from tiltyard.ports import Sandboxes, World
from tiltyard.sandbox.tools import SANDBOX_TOOLS, in_time, is_command, request_of, shown_of, with_clock

OVER_BUDGET = "budget_exhausted"
"""The code of a call that was not made, because no tool calls were left."""

SANDBOX_LOST = "sandbox_lost"
"""The code of a command that was under way in a sandbox that was lost: what it did is unknown."""


@dataclass(frozen=True)
class Place:
    """Where the calls of an episode take effect."""

    task: Task
    lease: LeaseRef
    sandbox: SandboxRef | None = None


@dataclass(frozen=True)
class Clocks:
    """Virtual time before a call: the episode's, and how much of it was spent outside the world so far."""

    now_s: int = 0
    elsewhere_s: int = 0


@dataclass(frozen=True)
class Answered:
    """What a call came to. ``outage_s`` are real seconds lost before the outcome could be asked for."""

    shown: Shown
    clocks: Clocks
    fault: str = ""
    committed: bool = False
    outage_s: float = 0

    def observed(self, tool: str) -> Observation:
        """What the policy is shown of it."""
        shown = self.shown
        return Observation(
            tool=tool, status=shown.status, content=shown.content, code=shown.code, message=shown.message
        )


def after_command(clocks: Clocks, tool: str, seen: WorldSeen | None = None) -> Clocks:
    """A command costs the episode what its tool declares, whatever came of it.

    ``seen`` is the world after the last call from inside the sandbox. Such a call moves the world's clock like any
    other; where the agent has called the world since, its clock is ahead of what was seen.
    """
    cost_s = SANDBOX_TOOLS[tool].cost_s
    elsewhere_s = clocks.elsewhere_s + cost_s
    inside_s = 0 if seen is None else seen.now_s + elsewhere_s - seen.elsewhere_s
    return Clocks(max(clocks.now_s + cost_s, inside_s), elsewhere_s)


class Gateway:
    """Carries calls. Every call has its delivery id, under which a repeat finds the recorded outcome."""

    def __init__(self, world: World, reconciler: Reconciler, sandboxes: Sandboxes) -> None:
        self._world = world
        self._reconciler = reconciler
        self._sandboxes = sandboxes

    async def tools(self, task: Task) -> tuple[ToolSpec, ...]:
        """All tools of the task's world and, where it has one, of its sandbox."""
        tools = await self._reconciler.until_reply(lambda: self._world.describe(task.world))
        return (*tools, *SANDBOX_TOOLS.values()) if task.sandbox is not None else tools

    async def connect(self, place: Place) -> None:
        """Let programs in the sandbox reach the world, where the task exposes it: those of this incarnation, and of
        no older one. Again: nothing happens. Raises as ``call`` does."""
        sandbox, plan, lease = place.sandbox, place.task.sandbox, place.lease
        if sandbox is None or plan is None or not plan.exposes:
            return
        access = WorldAccess(world=place.task.world, namespace=lease.namespace, generation=lease.generation)
        reach = self._reconciler.until_reply
        await reach(lambda: self._world.admit(lease.namespace, lease.generation, sandbox.incarnation))
        await reach(lambda: self._sandboxes.connect(sandbox, access))

    async def call(self, place: Place, sent: str, call: Call, clocks: Clocks, left_s: float = math.inf) -> Answered:
        """Carry out a call under the delivery id ``sent``. A command may take ``left_s`` real seconds at most.

        Raises ``LateWrite``, ``DeliveryConflict``, ``SandboxLost``, and ``WorldUnreachable`` or
        ``SandboxUnreachable`` past the deadline.
        """
        if is_command(place.task, call.tool):
            return await self._command(place, sent, call, clocks, left_s)
        request = DeliveryRequest(
            namespace=place.lease.namespace,
            generation=place.lease.generation,
            delivery_id=sent,
            tool=call.tool,
            arguments=call.arguments,
            elsewhere_s=clocks.elsewhere_s,
        )
        try:
            reply, outage_s = await self._reconciler.deliver(request)
        except BadInput as error:  # arguments that no world can record: the agent's mistake, and nothing happened
            return Answered(Shown(status="error", code="bad_arguments", message=str(error)), clocks)
        after = Clocks(reply.now_s, clocks.elsewhere_s)
        return Answered(reply.shown, after, reply.fault, reply.committed, outage_s)

    async def _command(self, place: Place, sent: str, call: Call, clocks: Clocks, left_s: float) -> Answered:
        sandbox, plan = place.sandbox, place.task.sandbox
        assert sandbox is not None, "a task with a sandbox has no turn before it has one"
        assert plan is not None
        request = request_of(call.tool, call.arguments, sent, plan.limits)
        if isinstance(request, Shown):
            return Answered(request, after_command(clocks, call.tool))
        cut = with_clock(in_time(request, left_s), clocks.elsewhere_s if plan.exposes else 0)
        lasts = timedelta(seconds=plan.limits.command_s)
        reply, outage_s = await self._reconciler.timed(lambda: self._sandboxes.call(sandbox, cut), lasts)
        seen = reply.exec.world if reply.exec is not None else None
        outage_s += seen.outage_s if seen is not None else 0
        return Answered(shown_of(request, reply), after_command(clocks, call.tool, seen), outage_s=outage_s)
