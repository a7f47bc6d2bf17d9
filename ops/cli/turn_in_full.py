"""One turn with everything that is kept of it, as a person reads it."""

from collections.abc import Iterator

from ops.cli.folded import Line, section
from ops.cli.processes import operation_lines, reaching_lines
from ops.cli.turns_shown import turn_lines
from ops.cli.values_shown import WHOLE, in_json, value_lines
from schemas.story import TurnInFull
from schemas.world import DeliveryRecord, LedgerRow, Receipt


def full_lines(full: TurnInFull) -> Iterator[Line]:
    """The turn uncut, then what the world and the sandbox have recorded of it."""
    yield from turn_lines(full.turn, whole=True)
    if full.record.decision.memo is not None:
        yield from value_lines("memo: ", full.record.decision.memo, 2, WHOLE)
    yield from section("deliveries", (line for one in full.deliveries for line in _delivery(one)))
    yield from section("receipts", map(_receipt, full.receipts))
    yield from section("ledger", (line for one in full.ledger for line in _row(one)))
    yield from section("programs", _programs(full))
    if full.turn.checkpoint:
        yield from section("files after it", [Line(f"kept as {full.turn.checkpoint}")])


def _delivery(one: DeliveryRecord) -> Iterator[Line]:
    yield Line(f"{one.delivery_id}: {one.tool}")
    yield Line(f"request {one.request_digest}", 2)
    if one.reply is None:
        yield Line("no outcome is recorded", 2)
        return
    reply = one.reply
    rows = f"ledger rows {reply.first} to {reply.last}" if reply.last >= reply.first else "no ledger row"
    done = "changed the world" if reply.committed else "changed nothing"
    fault = f"; planned fault {reply.fault}" if reply.fault else ""
    yield Line(f"{done}; {rows}; the clock was {reply.now_s} s afterwards{fault}", 2)


def _receipt(one: Receipt) -> Line:
    return Line(f"{one.operation_id} of {one.tool} [{one.delivery_id}] at {one.at_s} s: {in_json(one.result)}")


def _row(row: LedgerRow) -> Iterator[Line]:
    """One row of the ledger with its whole images; the engine's own rows too."""
    yield Line(f"{row.position}  {row.collection}/{row.key} by {row.tool} ({row.cause}) at {row.at_s} s")
    yield Line(f"before {in_json(row.before)}", 4)
    yield Line(f"after  {in_json(row.after)}", 4)


def _programs(full: TurnInFull) -> Iterator[Line]:
    yield from (Line(line, hang=24) for line in operation_lines(full.commands, full.processes))
    yield from map(Line, reaching_lines(full.marked_reads, full.connections))
