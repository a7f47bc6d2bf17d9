"""What follows a lease: seal, drain, recycle or quarantine, each of one generation (I2, I3, I4)."""

from schemas.world import DrainReport
from tiltyard.errors import BadInput, LateWrite, NotPristine
from tiltyard.worlds import clock
from tiltyard.worlds.desk import Desk, known
from tiltyard.worlds.draft import Draft
from tiltyard.worlds.in_flight import InFlight
from tiltyard.worlds.leasing import HELD, quarantined
from tiltyard.worlds.store import Contents, Namespace, NamespaceState, WorldStore, WorldTx


class Custody:
    """Ends leases. ``drain_limit_s`` is how long a drain waits for calls in flight, in real seconds."""

    def __init__(self, store: WorldStore, desk: Desk, in_flight: InFlight, drain_limit_s: float = 30) -> None:
        self._store, self._desk, self._in_flight, self._drain_limit_s = store, desk, in_flight, drain_limit_s

    def admit(self, name: str, generation: int, incarnation: int) -> None:
        """See ``tiltyard.ports.World.admit``."""
        with self._store.transaction() as tx:
            namespace = known(tx, name)
            if namespace.lease_generation != generation or namespace.state is not NamespaceState.LEASED:
                raise LateWrite(f"generation {generation} of {name} has ended")
            if incarnation > namespace.incarnation:
                tx.put_namespace(namespace.model_copy(update={"incarnation": incarnation}))

    def seal(self, name: str, generation: int) -> None:
        """See ``tiltyard.ports.World.seal``."""
        with self._store.transaction() as tx:
            namespace = known(tx, name)
            if namespace.lease_generation == generation and namespace.state is NamespaceState.LEASED:
                tx.put_namespace(self.sealed(namespace))

    def sealed(self, namespace: Namespace) -> Namespace:
        """The namespace behind its seal: with the fence moved, nothing of the lease is admitted any more."""
        return namespace.model_copy(
            update={
                "state": NamespaceState.SEALED,
                "fence": namespace.fence + 1,
                "sealed_position": namespace.position,
                "in_flight": self._in_flight.count(namespace.name),
            }
        )

    def drain(self, name: str, generation: int) -> DrainReport:
        """See ``tiltyard.ports.World.drain``. Raises ``BadInput`` when the namespace is not sealed yet."""
        quiet = self._in_flight.wait_out(name, self._drain_limit_s)
        with self._store.transaction() as tx:
            namespace = known(tx, name)
            if namespace.lease_generation != generation:
                return DrainReport()
            if namespace.state is not NamespaceState.SEALED:
                return _recorded(namespace)
            draft = self._desk.draft(tx, namespace)
            found = clock.pending(draft)
            self.cancel_jobs(draft)
            report = DrainReport(
                jobs_found=len(found),
                jobs_cancelled=len(found) - len(clock.pending(draft)),
                in_flight=namespace.in_flight,
                late_writes=len(tx.late(namespace.partition)),
                empty=quiet and not clock.pending(draft),
            )
            draft.commit()
            tx.put_namespace(draft.namespace.model_copy(update={"state": NamespaceState.DRAINED, "drain": report}))
            return report

    def cancel_jobs(self, draft: Draft) -> None:
        for job in clock.pending(draft):
            clock.cancel(draft, job)

    def recycle(self, name: str, generation: int) -> bool:
        """See ``tiltyard.ports.World.recycle``."""
        with self._store.transaction() as tx:
            namespace = known(tx, name)
            if namespace.lease_generation != generation or namespace.state is NamespaceState.FREE:
                return True
            if namespace.state is NamespaceState.QUARANTINED:
                return False
            why = self._unfit(tx, namespace)
            if not why:
                tx.purge(namespace.partition)
                why = "" if tx.contents(name) == Contents() else "rows of an old generation are left"
            tx.put_namespace(quarantined(namespace, why) if why else _freed(namespace))
            return not why

    def _unfit(self, tx: WorldTx, namespace: Namespace) -> str:
        """Why the namespace must not be used again; empty when it may."""
        if namespace.state is not NamespaceState.DRAINED:
            return f"not drained: it is {namespace.state}"
        if namespace.fence <= namespace.lease_generation:
            return "the seal has not moved the generation"
        if self._in_flight.count(namespace.name):
            return "a call is in flight"
        try:
            draft = self._desk.draft(tx, namespace)
        except NotPristine as changed:
            return str(changed)
        if clock.pending(draft):
            return "a deferred job is pending"
        if draft.base.altered():
            self._desk.templates.forget(self._desk.kind(draft.request.world), draft.request.template)
            return "the template was changed in memory"
        return ""

    def quarantine(self, name: str, generation: int, reason: str) -> None:
        """See ``tiltyard.ports.World.quarantine``."""
        with self._store.transaction() as tx:
            namespace = known(tx, name)
            if namespace.lease_generation == generation and namespace.state in HELD:
                tx.put_namespace(quarantined(namespace, reason))


def _freed(namespace: Namespace) -> Namespace:
    """A free namespace remembers its fence, and the drain's report for whoever asks again."""
    return Namespace(
        name=namespace.name,
        fence=namespace.fence,
        lease_generation=namespace.lease_generation,
        drain=namespace.drain,
    )


def _recorded(namespace: Namespace) -> DrainReport:
    if namespace.state is NamespaceState.LEASED:
        raise BadInput(f"{namespace.name} is leased", field="namespace", fix="seal it before draining it")
    return namespace.drain or DrainReport()
