"""A known sequence of calls on a fresh namespace, in this process: what each was shown, and what it came to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count

from schemas.base import JsonObject
from schemas.world import TOO_MANY_JOBS, DeliveryRequest, Facts, LeaseRequest, Owner, Shown
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.kit import Template, WorldKind

BREAKDOWNS = ("tool_failed", TOO_MANY_JOBS)
"""Codes that say that the world broke down. Nobody expects that: it is not a refusal."""


@dataclass(frozen=True)
class Played:
    """What each call was shown, in order, and the facts of the sealed namespace."""

    shown: tuple[Shown, ...]
    facts: Facts


class Sequences:
    """Plays sequences on one template of one world, in the engine that also serves episodes."""

    def __init__(self, world: WorldKind, made: Template) -> None:
        kinds: Mapping[str, WorldKind] = {world.name: replace(world, template=lambda name, params: made)}
        self._engine, self._world = Engine(kinds, MemoryWorlds()), world.name
        self._numbers = count(1)

    def play(self, calls: Iterable[tuple[str, JsonObject]]) -> Played:
        """Play (tool, arguments) one after another, whatever each is shown."""
        name = f"sequence-{next(self._numbers)}"
        owner = Owner(cluster="", temporal_namespace="", workflow_id=name, first_run_id="")
        lease = self._engine.lease(LeaseRequest(owner=owner, episode_id=name, world=self._world))
        requests = (
            DeliveryRequest(
                namespace=lease.namespace,
                generation=lease.generation,
                delivery_id=f"{name}/{lease.generation}/{number}/1",
                tool=tool,
                arguments=arguments,
            )
            for number, (tool, arguments) in enumerate(calls, 1)
        )
        shown = tuple(self._engine.call(request).shown for request in requests)
        self._engine.seal(lease.namespace, lease.generation)
        return Played(shown, self._engine.facts(lease.namespace, lease.generation))
