"""Tool calls: at most once each, whatever crashes when (I1)."""

from dataclasses import dataclass

from schemas.base import sha256
from schemas.world import DeliveryReply, DeliveryRequest
from schemas.world import LateWrite as LateWriteRow
from tiltyard.errors import DeliveryConflict, LateWrite
from tiltyard.worlds import waiting
from tiltyard.worlds.arguments import wire_form
from tiltyard.worlds.desk import Desk, known
from tiltyard.worlds.execution import execute
from tiltyard.worlds.in_flight import InFlight
from tiltyard.worlds.store import Delivery, Namespace, WorldStore, WorldTx


@dataclass(frozen=True)
class Sent:
    """A request with its arguments' canonical bytes, and the digest that tells one request from another."""

    request: DeliveryRequest
    arguments: bytes
    digest: str

    @classmethod
    def of(cls, request: DeliveryRequest) -> "Sent":
        """Raises ``BadInput`` for arguments that cannot be recorded."""
        arguments = wire_form(request.arguments)
        return cls(request, arguments, sha256(request.tool.encode("utf-8", "surrogatepass") + b"\x00" + arguments))


class Deliveries:
    """Executes deliveries, each in one transaction; a ``wait`` in several."""

    def __init__(self, store: WorldStore, desk: Desk, in_flight: InFlight) -> None:
        self._store, self._desk, self._in_flight = store, desk, in_flight

    def call(self, request: DeliveryRequest) -> DeliveryReply:
        """See ``tiltyard.ports.World.call``."""
        sent = Sent.of(request)
        with self._in_flight.call(request.namespace):
            reply = None
            while reply is None:
                reply = self.step(sent)
            return reply

    def step(self, sent: Sent) -> DeliveryReply | None:
        """One transaction of a delivery; ``None`` while it stays open."""
        with self._store.transaction() as tx:
            namespace = known(tx, sent.request.namespace)
            request = sent.request
            is_current = self.admits(namespace, request.generation)
            if is_current and self.admits_from(namespace, request.incarnation):
                return self._answer(tx, namespace, sent)
            self._log_late(tx, namespace, sent)
        # Raised only now: the log entry had to be committed.
        ended = "" if is_current else f"generation {request.generation} of {namespace.name} has ended"
        raise LateWrite(
            f"{request.delivery_id}: {ended or f'incarnation {request.incarnation} is not the current'}"
        )

    def admits(self, namespace: Namespace, generation: int) -> bool:
        """The generation check (I3): the fence still stands where this lease put it."""
        return generation == namespace.lease_generation == namespace.fence

    def admits_from(self, namespace: Namespace, incarnation: int) -> bool:
        """The same for calls from a sandbox: they come from its current incarnation."""
        return incarnation in (0, namespace.incarnation)

    def earlier(self, tx: WorldTx, namespace: Namespace, sent: Sent) -> Delivery | None:
        """The look-up of an earlier record (I1)."""
        return tx.delivery(namespace.partition, sent.request.delivery_id)

    def same_request(self, earlier: Delivery, sent: Sent) -> bool:
        """The check that one id names one request."""
        return earlier.request_digest == sent.digest

    def _answer(self, tx: WorldTx, namespace: Namespace, sent: Sent) -> DeliveryReply | None:
        delivery = self.earlier(tx, namespace, sent)
        if delivery is None:
            return self._execute(tx, namespace, sent)
        if not self.same_request(delivery, sent):
            raise DeliveryConflict(f"{delivery.delivery_id}: the id came with another request before")
        if delivery.reply is not None:
            return delivery.reply
        draft = self._desk.draft(tx, namespace)
        stepped = waiting.step(draft, self._desk.kind(draft.request.world), sent.request, delivery)
        draft.commit(stepped)
        return stepped.reply

    def _execute(self, tx: WorldTx, namespace: Namespace, sent: Sent) -> DeliveryReply | None:
        draft = self._desk.draft(tx, namespace)
        executed = execute(draft, self._desk.kind(draft.request.world), sent.request)
        delivery = Delivery(
            delivery_id=sent.request.delivery_id,
            ordinal=namespace.deliveries + 1,
            request_digest=sent.digest,
            tool=sent.request.tool,
            arguments=sent.arguments,
            reply=executed.reply,
            wait=executed.wait,
        )
        draft.commit(delivery)
        return executed.reply

    def _log_late(self, tx: WorldTx, namespace: Namespace, sent: Sent) -> None:
        late = LateWriteRow(
            delivery_id=sent.request.delivery_id,
            tool=sent.request.tool,
            generation=sent.request.generation,
            current_generation=namespace.fence,
            incarnation=sent.request.incarnation,
            current_incarnation=namespace.incarnation,
        )
        tx.log_late(namespace.name, late, sent.digest)
