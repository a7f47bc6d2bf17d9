"""Facts of a sealed generation: what graders judge by (I8)."""

from collections.abc import Iterable, Sequence

from schemas.base import JsonObject
from schemas.branch import Past
from schemas.world import DeliveryRecord, Facts, Receipt, Row, RowChange
from tiltyard.errors import BadInput
from tiltyard.worlds import clock
from tiltyard.worlds.arguments import sent_digest
from tiltyard.worlds.desk import Desk, known
from tiltyard.worlds.draft import Draft
from tiltyard.worlds.kit import WorldKind
from tiltyard.worlds.leasing import HELD
from tiltyard.worlds.rows import RECEIPTS, Effect, RowKey, decoded
from tiltyard.worlds.store import Delivery, Namespace, NamespaceState, WorldStore

UNSEALED = (NamespaceState.LEASED, NamespaceState.FREE)


class Collecting:
    """Collects facts."""

    def __init__(self, store: WorldStore, desk: Desk) -> None:
        self._store, self._desk = store, desk

    def facts(self, name: str, generation: int, collections: Sequence[str]) -> Facts:
        """See ``tiltyard.ports.World.facts``. Raises ``BadInput`` unless that generation is sealed and kept."""
        with self._store.transaction() as tx:
            namespace = known(tx, name)
            _require_sealed(namespace, generation)
            draft = self._desk.draft(tx, namespace)
            kind = self._desk.kind(draft.request.world)
            ledger = tx.ledger(namespace.partition)
            at_seal = [effect for effect in ledger if effect.position <= namespace.sealed_position]
            assert namespace.lease is not None
            return Facts(
                namespace=name,
                generation=generation,
                world=draft.request.world,
                template=draft.request.template,
                template_digest=namespace.lease.template_digest,
                tools_digest=namespace.lease.tools_digest,
                now_s=draft.now_s,
                deliveries=tuple(_record(one, kind) for one in tx.deliveries(namespace.partition)),
                ledger=tuple(effect.as_ledger_row() for effect in ledger),
                receipts=tuple(Receipt.model_validate(body) for _, body in draft.scan(RECEIPTS)),
                jobs=clock.jobs(draft),
                late=tx.late(namespace.partition),
                before_drain=net_changes(at_seal),
                changes=net_changes(ledger),
                initial=_initial(draft, collections),
            )

    def so_far(self, name: str, generation: int) -> Past:
        """See ``tiltyard.ports.World.so_far``."""
        with self._store.transaction() as tx:
            namespace = known(tx, name)
            lease = namespace.lease
            if namespace.lease_generation != generation or namespace.state not in HELD or lease is None:
                raise _not_kept(namespace, generation)
            deliveries, ledger = tx.deliveries(namespace.partition), tx.ledger(namespace.partition)
        # Outside the transaction: the episode goes on meanwhile.
        kind = self._desk.kind(lease.world)
        return Past(
            episode_id=lease.episode_id,
            generation=generation,
            template_digest=lease.template_digest,
            deliveries=tuple(_record(one, kind) for one in deliveries),
            ledger=tuple(effect.as_ledger_row() for effect in ledger),
        )


def net_changes(ledger: Iterable[Effect]) -> tuple[RowChange, ...]:
    """What a ledger comes to: each entity's first image before and last after, without those that are equal."""
    images: dict[RowKey, tuple[bytes | None, bytes | None]] = {}
    for effect in ledger:
        if not effect.row.system:
            before, _ = images.get(effect.row, (effect.before, None))
            images[effect.row] = (before, effect.after)
    return tuple(
        RowChange(**row._asdict(), before=decoded(before), after=decoded(after))
        for row, (before, after) in sorted(images.items())
        if before != after
    )


def _require_sealed(namespace: Namespace, generation: int) -> None:
    if namespace.lease_generation != generation:
        raise _not_kept(namespace, generation)
    if namespace.state in UNSEALED:
        raise BadInput(f"{namespace.name} is {namespace.state}", field="namespace", fix="seal it first")


def _not_kept(namespace: Namespace, generation: int) -> BadInput:
    return BadInput(
        f"generation {generation} of {namespace.name} is not kept",
        field="generation",
        fix="ask before the namespace is given back",
    )


def _record(delivery: Delivery, kind: WorldKind) -> DeliveryRecord:
    arguments = decoded(delivery.arguments)
    assert isinstance(arguments, dict)
    kept: JsonObject = arguments
    return DeliveryRecord(
        delivery_id=delivery.delivery_id,
        tool=delivery.tool,
        arguments=kept,
        request_digest=delivery.request_digest,
        arguments_digest=sent_digest(delivery.tool, kind.tools.get(delivery.tool), kept),
        reply=delivery.reply,
    )


def _initial(draft: Draft, collections: Sequence[str]) -> tuple[Row, ...]:
    world = draft.request.world
    return tuple(
        Row(world=world, collection=collection, key=key, body=draft.base.load(collection, key))
        for collection in sorted(set(collections))
        for key in sorted(draft.base.keys(collection))
    )
