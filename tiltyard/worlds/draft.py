"""The changes of one transaction on one namespace: the only path by which a row is written."""

from collections.abc import Iterator

from schemas.base import JsonValue, canonical
from schemas.world import LeaseRequest
from tiltyard.worlds.rows import CLOCK, JOBS, Cause, Effect, RowKey, decoded
from tiltyard.worlds.store import Delivery, Namespace, Overlay, WorldTx
from tiltyard.worlds.template_reader import TemplateReader

NOW = "now"


class Draft:
    """Reads fall through from the changes so far to the stored rows to the template.

    The list of changes is the undo log as well: ``rollback`` cuts it, and nothing reaches the store before
    ``commit``. A save that leaves a row as it was is no change and leaves no ledger row.
    """

    def __init__(self, tx: WorldTx, namespace: Namespace, request: LeaseRequest, base: TemplateReader) -> None:
        self.tx, self.namespace, self.request, self.base = tx, namespace, request, base
        self._effects: list[Effect] = []
        self._written: dict[RowKey, Overlay] = {}
        self._stored: dict[RowKey, Overlay | None] = {}

    @property
    def position(self) -> int:
        """The last ledger position so far."""
        return self.namespace.position + len(self._effects)

    @property
    def now_s(self) -> int:
        now = self.load(CLOCK, NOW)
        return now if isinstance(now, int) else 0

    def row_key(self, collection: str, key: str) -> RowKey:
        return RowKey(self.request.world, collection, key)

    def load(self, collection: str, key: str) -> JsonValue:
        """A value of the caller's own, or ``None``."""
        overlay = self._overlay(self.row_key(collection, key))
        return self.base.load(collection, key) if overlay is None else decoded(overlay.body)

    def scan(self, collection: str) -> Iterator[tuple[str, JsonValue]]:
        """All rows as they are now, in code point order of their keys; later changes do not show."""
        overlays = dict(self.tx.rows(self.namespace.partition, self.request.world, collection))
        overlays |= {row.key: overlay for row, overlay in self._written.items() if row.collection == collection}
        for key in sorted({*self.base.keys(collection), *overlays}):
            overlay = overlays.get(key)
            value = self.base.load(collection, key) if overlay is None else decoded(overlay.body)
            if value is not None:
                yield key, value

    def save(self, cause: Cause, collection: str, key: str, value: object) -> None:
        """Write a row; ``None`` deletes it. Raises ``ValueError`` for what has no canonical form."""
        row = self.row_key(collection, key)
        before, after = self._image(row), None if value is None else canonical(value)
        if before == after:
            return
        self._effects.append(Effect(self.position + 1, cause, row, before, after, self.now_s))
        self._written[row] = Overlay(after)

    def mark(self) -> int:
        """A savepoint."""
        return len(self._effects)

    def rollback(self, mark: int) -> None:
        """Take back every change since the savepoint."""
        del self._effects[mark:]
        self._written = {effect.row: Overlay(effect.after) for effect in self._effects}

    def changed_by(self, cause: Cause) -> bool:
        """Whether this cause has changed the world so far: an entity, or work that it put off until later."""
        return any(effect.cause == cause and _counts(effect) for effect in self._effects)

    def commit(self, delivery: Delivery | None = None) -> None:
        """Hand everything to the transaction, with the delivery that it belongs to."""
        partition = self.namespace.partition
        self.tx.put_rows(partition, self._written)
        self.tx.append(partition, self._effects)
        count = self.namespace.deliveries
        if delivery is not None:
            self.tx.put_deliveries(partition, [delivery])
            count = max(count, delivery.ordinal)
        self.namespace = self.namespace.model_copy(update={"position": self.position, "deliveries": count})
        self._effects, self._written, self._stored = [], {}, {}
        self.tx.put_namespace(self.namespace)

    def _overlay(self, row: RowKey) -> Overlay | None:
        if row in self._written:
            return self._written[row]
        if row not in self._stored:  # the transaction is alone, so one look is enough
            self._stored[row] = self.tx.row(self.namespace.partition, row)
        return self._stored[row]

    def _image(self, row: RowKey) -> bytes | None:
        overlay = self._overlay(row)
        return self.base.image(row.collection, row.key) if overlay is None else overlay.body


def _counts(effect: Effect) -> bool:
    return not effect.row.system or effect.row.collection == JOBS
