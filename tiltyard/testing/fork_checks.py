"""Whether a run of calls can be forked at every one of them: the same remaining calls then come to the same."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from schemas.base import JsonObject, Model, canonical
from schemas.branch import Past
from schemas.fault import Fault
from schemas.world import DeliveryReply, DeliveryRequest, Facts, Lease, LeaseRequest, Owner
from tiltyard.errors import BadInput, DeliveryConflict, LateWrite, TiltyardError
from tiltyard.reopen.past import past_of, until_turn
from tiltyard.testing.once import flaws
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.rows import Partition
from tiltyard.worlds.store import Contents, WorldStore


class Asked(NamedTuple):
    """A call, with the time that the episode had spent outside the world before it."""

    tool: str
    arguments: JsonObject
    elsewhere_s: int = 0


EVERYTHING: Sequence[Asked] = (
    Asked("add", {"name": "plums", "operation_id": "op-1"}),
    Asked("tick", {"name": "ticks", "every_s": 20, "times": 3}, elsewhere_s=4),
    Asked("number", {}, elsewhere_s=4),
    Asked("add_later", {"name": "plums", "after_s": 500, "operation_id": "op-2"}, elsewhere_s=9),
    Asked("remove", {"name": "pears"}, elsewhere_s=9),
    Asked("wait", {"seconds": 30}, elsewhere_s=9),
    Asked("add", {"name": "plums", "operation_id": "op-1"}, elsewhere_s=9),
    Asked("read", {"name": "ticks"}, elsewhere_s=30),
    Asked("number", {}, elsewhere_s=30),
)
"""A run of the tally world that leaves a bit of everything: receipts, a sequence, jobs that have ended or will not
end for long."""

PLAN = (Fault(tool="add", kind="commit_then_drop", nth=2), Fault(tool="read", kind="delay", delay_s=5))

ANOTHER = Asked("get_receipt", {"operation_id": "of another request"})


@dataclass(frozen=True)
class Ran:
    """A run and what it came to: what it was answered, its past before each of its calls and after the last one,
    and the facts of its sealed and drained namespace, which still has it."""

    lease: Lease
    calls: tuple[Asked, ...]
    replies: tuple[DeliveryReply, ...]
    pasts: tuple[Past, ...]
    facts: Facts


def ran(engine: Engine, request: LeaseRequest, calls: Sequence[Asked]) -> Ran:
    """Make the calls, a turn each."""
    lease = engine.lease(request)
    replies, pasts = [], [engine.so_far(lease.namespace, lease.generation)]
    for turn, asked in enumerate(calls):
        replies.append(engine.call(delivery(lease, turn, asked)))
        pasts.append(engine.so_far(lease.namespace, lease.generation))
    return Ran(lease, tuple(calls), tuple(replies), tuple(pasts), ended(engine, lease))


def forks_flaws(engine: Engine, store: WorldStore, request: LeaseRequest, calls: Sequence[Asked]) -> Iterator[str]:
    """What is wrong with forks of a run at each of its turns, and behind the last one; nothing when all is well."""
    run = ran(engine, request, calls)
    before = held(store, run.lease)
    for turn in range(len(calls) + 1):
        yield from (f"fork at {turn}: {flaw}" for flaw in _fork_flaws(engine, store, request, run, turn))
    if held(store, run.lease) != before:
        yield "the parent was changed"


def _fork_flaws(engine: Engine, store: WorldStore, request: LeaseRequest, run: Ran, turn: int) -> Iterator[str]:
    past = run.pasts[turn]
    if until_turn(past_of(run.facts, request.episode_id), turn) != past:
        yield "the past that its facts tell is not the one that the namespace told then"
    asked = fork_request(request, f"{request.episode_id}-fork-{turn}")
    lease = engine.lease(asked, past)
    if engine.lease(asked, past) != lease:
        yield "the same owner got another lease"
    if anonymous_past(engine.so_far(lease.namespace, lease.generation)) != anonymous_past(past):
        yield "it begins with another past"
    yield from _resent_flaws(engine, lease, run, turn)
    for ahead in range(turn, len(run.calls)):
        answer = _answer(engine, lease, ahead, run.calls[ahead])
        if answer != _own(run.replies[ahead], run.lease):
            yield f"call {ahead} was answered otherwise: {answer}"
    facts = ended(engine, lease)
    if anonymous_facts(facts, lease.episode_id) != anonymous_facts(run.facts, request.episode_id):
        yield "it comes to something else"
    yield from flaws(facts)
    yield from _ending_flaws(engine, store, lease)


def _resent_flaws(engine: Engine, lease: Lease, run: Ran, turn: int) -> Iterator[str]:
    """Deliveries of the past that are sent again are answered from the record, and change nothing."""
    before = engine.so_far(lease.namespace, lease.generation)
    for kept in range(turn):
        answer = _answer(engine, lease, kept, run.calls[kept])
        if answer != _own(run.replies[kept], run.lease):
            yield f"call {kept} was answered otherwise when it was sent again: {answer}"
        if _answer(engine, lease, kept, ANOTHER) != DeliveryConflict.__name__:
            yield f"another request under the id of call {kept} was accepted"
    if engine.so_far(lease.namespace, lease.generation) != before:
        yield "calls that were sent again have changed something"


def _ending_flaws(engine: Engine, store: WorldStore, lease: Lease) -> Iterator[str]:
    """A fork that has been sealed and drained refuses what comes late, and leaves nothing."""
    for turn in (0, 999):
        if _answer(engine, lease, turn, ANOTHER) != LateWrite.__name__:
            yield "a late write was accepted"
    if not engine.recycle(lease.namespace, lease.generation):
        yield "its namespace was quarantined"
    with store.transaction() as tx:
        if tx.contents(lease.namespace) != Contents():
            yield "its namespace is not pristine again"
    try:
        engine.so_far(lease.namespace, lease.generation)
        yield "it tells a past when it is over"
    except BadInput:
        return


def _answer(engine: Engine, lease: Lease, turn: int, asked: Asked) -> str:
    """The reply without the episode's own ids, or what was raised."""
    try:
        return _own(engine.call(delivery(lease, turn, asked)), lease)
    except TiltyardError as error:
        return type(error).__name__


def fork_request(request: LeaseRequest, name: str) -> LeaseRequest:
    """The same request of another episode."""
    owner = Owner(cluster="test", temporal_namespace="default", workflow_id=name, first_run_id=name)
    return request.model_copy(update={"owner": owner, "episode_id": name})


def delivery(lease: Lease, turn: int, asked: Asked) -> DeliveryRequest:
    return DeliveryRequest(
        namespace=lease.namespace,
        generation=lease.generation,
        delivery_id=f"{lease.episode_id}/{lease.generation}/{turn}/0",
        tool=asked.tool,
        arguments=asked.arguments,
        elsewhere_s=asked.elsewhere_s,
    )


def ended(engine: Engine, lease: Lease) -> Facts:
    """Seal, drain and collect."""
    engine.seal(lease.namespace, lease.generation)
    engine.drain(lease.namespace, lease.generation)
    return engine.facts(lease.namespace, lease.generation)


def anonymous_facts(facts: Facts, episode_id: str) -> str:
    """Facts as they are for any episode: those that keep an id of another one differ."""
    bare = facts.model_copy(update={"namespace": "", "generation": 0})
    return _without(f"{episode_id}/{facts.generation}/", bare)


def anonymous_past(past: Past) -> str:
    """A past as it is for any episode."""
    bare = past.model_copy(update={"episode_id": "", "generation": 0})
    return _without(f"{past.episode_id}/{past.generation}/", bare)


def _own(reply: DeliveryReply, lease: Lease) -> str:
    return _without(f"{lease.episode_id}/{lease.generation}/", reply)


def _without(prefix: str, document: Model) -> str:
    return canonical(document).decode().replace(prefix, "")


def held(store: WorldStore, lease: Lease) -> tuple[object, ...]:
    """Everything that a namespace holds, to be compared."""
    partition = Partition(lease.namespace, lease.generation)
    with store.transaction() as tx:
        ledger = tx.ledger(partition)
        collections = sorted({(effect.row.world, effect.row.collection) for effect in ledger})
        return (
            tx.namespace(lease.namespace),
            tx.contents(lease.namespace),
            tuple((place, dict(tx.rows(partition, *place))) for place in collections),
            tx.deliveries(partition),
            ledger,
            tx.late(partition),
        )
