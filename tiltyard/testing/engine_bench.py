"""One leased namespace of the tally world, with the calls that tests make of it in one line."""

from collections.abc import Sequence

from schemas.base import JsonValue
from schemas.fault import Fault
from schemas.world import DeliveryReply, DeliveryRequest, Facts, Lease, LeaseRequest, Owner, TemplateRef
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.store import WorldStore


def owner(name: str) -> Owner:
    """The owner of an episode's lease."""
    return Owner(cluster="test", temporal_namespace="default", workflow_id=name, first_run_id=f"{name}-run")


def lease_request(
    episode: str = "ep-1",
    *,
    world: str = "tally",
    template: TemplateRef = TemplateRef(),  # noqa: B008  frozen
    tools: tuple[str, ...] = (),
    inside_tools: tuple[str, ...] = (),
    faults: tuple[Fault, ...] = (),
    seed: int = 0,
) -> LeaseRequest:
    return LeaseRequest(
        owner=owner(episode),
        episode_id=episode,
        world=world,
        template=template,
        tools=tools,
        inside_tools=inside_tools,
        faults=faults,
        seed=seed,
    )


def delivery_request(lease: Lease, delivery_id: str, tool: str, /, **arguments: JsonValue) -> DeliveryRequest:
    return DeliveryRequest(
        namespace=lease.namespace,
        generation=lease.generation,
        delivery_id=delivery_id,
        tool=tool,
        arguments=arguments,
    )


class Bench:
    """A fresh engine on a store with one lease; ``again`` makes another engine on the same store."""

    def __init__(
        self,
        *,
        store: WorldStore | None = None,
        engine: Engine | None = None,
        tools: tuple[str, ...] = (),
        faults: Sequence[Fault] = (),
        template: str = "default",
    ) -> None:
        self.store = store or MemoryWorlds()
        self.engine = engine or Engine({"tally": TALLY}, self.store)
        self.lease = self.engine.lease(
            lease_request(tools=tools, faults=tuple(faults), template=TemplateRef(name=template))
        )
        self._sent = 0

    def again(self) -> None:
        """The server has been restarted."""
        self.engine = Engine({"tally": TALLY}, self.store)

    def request(self, tool: str, arguments: dict[str, JsonValue], delivery: str = "") -> DeliveryRequest:
        self._sent += 0 if delivery else 1
        return delivery_request(self.lease, delivery or f"call-{self._sent}", tool, **arguments)

    def call(
        self,
        tool: str,
        *,
        delivery: str = "",
        namespace: str = "",
        generation: int = 0,
        **arguments: JsonValue,
    ) -> DeliveryReply:
        request = self.request(tool, arguments, delivery)
        if namespace or generation:
            request = request.model_copy(
                update={
                    "namespace": namespace or request.namespace,
                    "generation": generation or request.generation,
                }
            )
        return self.engine.call(request)

    def send(self, tool: str, arguments: dict[str, JsonValue], delivery: str = "") -> DeliveryReply:
        """``call`` with the arguments in a mapping."""
        return self.engine.call(self.request(tool, arguments, delivery))

    def total(self, name: str) -> JsonValue:
        """The total of a tally, as an agent reads it."""
        content = self.call("read", name=name).shown.content
        return content["total"] if isinstance(content, dict) else None

    def finish(self, collections: Sequence[str] = ()) -> Facts:
        """Seal, drain and collect."""
        self.engine.seal(self.lease.namespace, self.lease.generation)
        self.engine.drain(self.lease.namespace, self.lease.generation)
        return self.engine.facts(self.lease.namespace, self.lease.generation, collections)
