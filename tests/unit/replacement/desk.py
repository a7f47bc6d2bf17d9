"""A service desk to try tools at: one leased namespace of the replacement world on the real engine."""

from schemas.base import JsonObject, JsonValue
from schemas.world import DeliveryRequest, RowChange, Shown, TemplateRef
from tiltyard.testing.engine_bench import lease_request
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.replacement.world import WORLD

DAY_S = 86_400

CASE: JsonObject = {
    "customer": {"customer_id": "CU-1", "name": "Ann Ode", "email": "ann@example.com", "address": "1 Way"},
    "device": {"serial": "SN-1", "model": "aria-7", "customer_id": "CU-1", "bought_on": "2025-01-01"},
    "ticket": {
        "ticket_id": "T-1",
        "customer_id": "CU-1",
        "serial": "SN-1",
        "problem": "dark",
        "cause": "wear",
        "approval_ids": ["A-1"],
    },
    "approvals": [{"approval_id": "A-1", "ticket_id": "T-1", "model": "aria-7", "status": "denied"}],
    "stock": {"aria-7": {"available": 2}, "aria-9": {"available": 0, "delivery_after_s": 3600, "delivery": 4}},
    "events": [
        {"kind": "amend", "after_s": 7200, "approval_id": "A-1", "status": "approved", "model": "aria-9"},
        {"kind": "grant", "after_s": 9000, "approval_id": "A-2", "model": "aria-7"},
    ],
    "bystanders": 3,
}

ORDER: JsonObject = {"ticket_id": "T-1", "serial": "SN-1", "model": "aria-7", "approval_id": "A-1"}


class Desk:
    """Every call is a new delivery."""

    def __init__(self, params: JsonObject = CASE) -> None:
        self._engine = Engine({"replacement": WORLD}, MemoryWorlds())
        template = TemplateRef(name="default", params=params)
        self._lease = self._engine.lease(lease_request(world="replacement", template=template))
        self._sent = 0

    def shown(self, tool: str, **arguments: JsonValue) -> Shown:
        self._sent += 1
        request = DeliveryRequest(
            namespace=self._lease.namespace,
            generation=self._lease.generation,
            delivery_id=f"call-{self._sent}",
            tool=tool,
            arguments=arguments,
        )
        return self._engine.call(request).shown

    def ok(self, tool: str, **arguments: JsonValue) -> JsonObject:
        shown = self.shown(tool, **arguments)
        assert shown.status == "ok", shown
        assert isinstance(shown.content, dict)
        return shown.content

    def changes(self) -> tuple[RowChange, ...]:
        """Seal, drain, and what is different."""
        namespace, generation = self._lease.namespace, self._lease.generation
        self._engine.seal(namespace, generation)
        self._engine.drain(namespace, generation)
        return self._engine.facts(namespace, generation).changes

    def rows(self, collection: str) -> list[JsonObject]:
        """Entities of a collection that were left different."""
        changed = [change.after for change in self.changes() if change.collection == collection]
        return [body for body in changed if isinstance(body, dict)]
