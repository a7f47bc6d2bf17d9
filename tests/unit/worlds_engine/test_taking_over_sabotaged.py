"""Each part of taking a past over, left out or done wrongly: the checks of forks notice it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from schemas.branch import Past
from schemas.world import TemplateRef
from tiltyard.reopen.past import until_turn
from tiltyard.testing.engine_bench import lease_request
from tiltyard.testing.fork_checks import EVERYTHING, PLAN, forks_flaws
from tiltyard.testing.memory_worlds import MemoryTx, MemoryWorlds
from tiltyard.testing.tally_world import TALLIES, TALLY
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.leasing import Leasing
from tiltyard.worlds.rows import CLOCK, ENDED_JOBS, FAULTS, JOBS, RECEIPTS, SEQUENCES, Effect, Partition, RowKey
from tiltyard.worlds.store import Delivery, Namespace, Overlay, WorldTx

FORKS = re.compile(r"ep-1-fork-\d+/\d+/")


def parents(name: str) -> str:
    """An id of a fork as it was in the parent."""
    return FORKS.sub("ep-1/1/", name)


def parents_in(body: bytes | None) -> bytes | None:
    return None if body is None else parents(body.decode()).encode()


class Spoiling(MemoryTx):
    """The transaction that a past is written in; each sabotage changes one thing of it."""


def without(collection: str) -> type[Spoiling]:
    class Forgets(Spoiling):
        def put_rows(self, partition: Partition, rows: Mapping[RowKey, Overlay]) -> None:
            super().put_rows(partition, {row: one for row, one in rows.items() if row.collection != collection})

    return Forgets


def rows_with(change: Callable[[Overlay], Overlay | None]) -> type[Spoiling]:
    class Changes(Spoiling):
        def put_rows(self, partition: Partition, rows: Mapping[RowKey, Overlay]) -> None:
            changed = {row: change(one) for row, one in rows.items()}
            super().put_rows(partition, {row: one for row, one in changed.items() if one is not None})

    return Changes


def ledger_with(change: Callable[[list[Effect]], list[Effect]]) -> type[Spoiling]:
    class Changes(Spoiling):
        def append(self, partition: Partition, effects: Sequence[Effect]) -> None:
            super().append(partition, change(list(effects)))

    return Changes


def deliveries_with(change: Callable[[list[Delivery]], list[Delivery]]) -> type[Spoiling]:
    class Changes(Spoiling):
        def put_deliveries(self, partition: Partition, deliveries: Sequence[Delivery]) -> None:
            super().put_deliveries(partition, change(list(deliveries)))

    return Changes


def counts_with(**counts: int) -> type[Spoiling]:
    class Changes(Spoiling):
        def put_namespace(self, namespace: Namespace) -> None:
            super().put_namespace(namespace.model_copy(update=counts))

    return Changes


class WritesIntoTheParent(Spoiling):
    def put_rows(self, partition: Partition, rows: Mapping[RowKey, Overlay]) -> None:
        super().put_rows(partition, rows)
        super().put_rows(Partition("ns-000001", 1), {RowKey("tally", TALLIES, "plums"): Overlay(b"1")})


def with_parents_cause(effect: Effect) -> Effect:
    return replace(effect, cause=effect.cause._replace(id=parents(effect.cause.id)))


def with_parents_images(effect: Effect) -> Effect:
    return replace(effect, before=parents_in(effect.before), after=parents_in(effect.after))


def with_parents_reply(delivery: Delivery) -> Delivery:
    assert delivery.reply is not None
    name = parents(delivery.reply.delivery_id)
    return replace(delivery, reply=delivery.reply.model_copy(update={"delivery_id": name}))


def one_more(effects: list[Effect]) -> list[Effect]:
    return [*effects, replace(effects[-1], position=effects[-1].position + 1)] if effects else []


COLLECTIONS = (CLOCK, JOBS, ENDED_JOBS, RECEIPTS, SEQUENCES, FAULTS, TALLIES)

SABOTAGES: dict[str, type[Spoiling]] = {
    **{
        f"no rows of {name}": without(name)
        for name in (CLOCK, JOBS, ENDED_JOBS, RECEIPTS, SEQUENCES, FAULTS, TALLIES)
    },
    "no tombstones": rows_with(lambda one: None if one.body is None else one),
    "the parent's ids in rows": rows_with(lambda one: Overlay(parents_in(one.body))),
    "the parent's ids in causes": ledger_with(lambda effects: [with_parents_cause(one) for one in effects]),
    "the parent's ids in images": ledger_with(lambda effects: [with_parents_images(one) for one in effects]),
    "the parent's ids in deliveries": deliveries_with(
        lambda all_of: [replace(one, delivery_id=parents(one.delivery_id)) for one in all_of]
    ),
    "the parent's ids in replies": deliveries_with(lambda all_of: [with_parents_reply(one) for one in all_of]),
    "no ledger": ledger_with(lambda effects: []),
    "a row of the ledger too few": ledger_with(lambda effects: effects[:-1]),
    "a row of the ledger too many": ledger_with(one_more),
    "no deliveries": deliveries_with(lambda all_of: []),
    "a delivery too few": deliveries_with(lambda all_of: all_of[:-1]),
    "deliveries in another order": deliveries_with(
        lambda all_of: [replace(one, ordinal=len(all_of) - number) for number, one in enumerate(all_of)]
    ),
    "deliveries that do not know their request": deliveries_with(
        lambda all_of: [replace(one, request_digest="") for one in all_of]
    ),
    "other arguments": deliveries_with(lambda all_of: [replace(one, arguments=b"{}") for one in all_of]),
    "positions that start anew": counts_with(position=0),
    "ordinals that start anew": counts_with(deliveries=0),
    "a write into the parent": WritesIntoTheParent,
}


def spoilt(tx_type: type[Spoiling]) -> Iterator[str]:
    class Sabotaged(Leasing):
        def take_over(self, tx: WorldTx, leased: Namespace, past: Past) -> None:
            one: Any = tx
            one.__class__ = tx_type
            super().take_over(tx, leased, past)
            one.__class__ = MemoryTx

    return flaws_with(Sabotaged)


def flaws_with(leasing: type[Leasing] = Leasing, engine: type[Engine] = Engine) -> Iterator[str]:
    store = MemoryWorlds()
    sabotaged = engine({"tally": TALLY}, store)
    sabotaged.leasing = leasing(store, sabotaged.desk)
    request = lease_request(template=TemplateRef(name="jobs"), faults=PLAN)
    return forks_flaws(sabotaged, store, request, EVERYTHING)


def test_without_a_sabotage_there_is_no_flaw() -> None:
    assert list(spoilt(Spoiling)) == []


@pytest.mark.parametrize("sabotage", SABOTAGES)
def test_a_sabotage_is_noticed(sabotage: str) -> None:
    assert next(spoilt(SABOTAGES[sabotage]), "")


def test_a_past_of_an_earlier_moment_is_noticed() -> None:
    class TakesTooLittle(Leasing):
        def take_over(self, tx: WorldTx, leased: Namespace, past: Past) -> None:
            super().take_over(tx, leased, until_turn(past, len(past.deliveries) - 1))

    assert next(flaws_with(TakesTooLittle), "")


@pytest.mark.parametrize(
    "changed",
    [
        lambda past: {"ledger": tuple(row for row in past.ledger if not row.system)},
        lambda past: {"ledger": past.ledger[:-1]},
        lambda past: {"deliveries": past.deliveries[:-1]},
        lambda past: {"deliveries": past.deliveries[::-1]},
    ],
    ids=["no system rows", "a row too few", "a delivery too few", "another order"],
)
def test_a_past_that_is_told_wrongly_is_noticed(changed: Callable[[Past], dict[str, object]]) -> None:
    class Tells(Engine):
        def so_far(self, namespace: str, generation: int) -> Past:
            past = super().so_far(namespace, generation)
            return past.model_copy(update=changed(past))

    assert next(flaws_with(engine=Tells), "").endswith("is not the one that the namespace told then")
