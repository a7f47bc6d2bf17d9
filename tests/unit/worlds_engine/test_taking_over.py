"""Taking a past over: again and again, at once, cut short, and refused."""

import threading
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from infra.stores.database import open_database
from infra.stores.world_store import SqlWorlds
from schemas.branch import Past
from schemas.world import DeliveryReply, Lease, LeaseRequest, TemplateRef
from tiltyard.errors import BadInput, LateWrite
from tiltyard.reopen.past import until_turn
from tiltyard.testing.crashing_worlds import CrashingWorlds, Moment, ProcessDied
from tiltyard.testing.engine_bench import lease_request
from tiltyard.testing.fork_checks import (
    EVERYTHING,
    PLAN,
    Asked,
    anonymous_facts,
    delivery,
    ended,
    fork_request,
    ran,
)
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.once import flaws
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.deliveries import Sent
from tiltyard.worlds.engine import Engine

WORLDS = {"tally": TALLY}


def test_a_fork_of_a_fork_of_a_fork_comes_to_the_same() -> None:
    """Each call of the run is made by another episode, which goes on from where the last one was."""
    engine = Engine(WORLDS, MemoryWorlds())
    request = lease_request(template=TemplateRef(name="jobs"), faults=PLAN)
    run = ran(engine, request, EVERYTHING)
    lease, past = run.lease, run.pasts[0]
    for turn, asked in enumerate(EVERYTHING):
        lease = engine.lease(fork_request(request, f"heir-{turn}"), past)
        engine.call(delivery(lease, turn, asked))
        past = engine.so_far(lease.namespace, lease.generation)
    assert anonymous_facts(ended(engine, lease), lease.episode_id) == anonymous_facts(run.facts, "ep-1")


def test_forks_run_at_once_beside_their_parent(tmp_path: Path) -> None:
    """Six forks of one moment and the parent itself, each on a thread of its own."""
    database = open_database(f"sqlite:///{tmp_path}/worlds.db")
    engine = Engine(WORLDS, SqlWorlds(database))
    request = lease_request(template=TemplateRef(name="jobs"), faults=PLAN)
    parent = engine.lease(request)
    for turn in range(4):
        engine.call(delivery(parent, turn, EVERYTHING[turn]))
    past = engine.so_far(parent.namespace, parent.generation)
    start, found = threading.Barrier(7), dict[str, str]()

    def go_on(name: str) -> None:
        start.wait()
        lease = parent if name == "ep-1" else engine.lease(fork_request(request, name), past)
        for turn in range(4, len(EVERYTHING)):
            engine.call(delivery(lease, turn, EVERYTHING[turn]))
        found[name] = anonymous_facts(ended(engine, lease), name)

    threads = [threading.Thread(target=go_on, args=(name,)) for name in ("ep-1", *(f"fork-{n}" for n in range(6)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 7
    assert set(found.values()) == {found["ep-1"]}
    database.close()


def test_calls_from_inside_a_sandbox_are_taken_over_under_ids_of_the_fork() -> None:
    """A new sandbox is admitted from its first incarnation on, and the old one's calls are known."""
    engine = Engine(WORLDS, MemoryWorlds())
    request = lease_request(inside_tools=("add",))

    def inside(lease: Lease, number: int) -> DeliveryReply:
        sent = delivery(lease, 0, Asked("add", {"name": "apples"}))
        name = f"{sent.delivery_id}/http/{number}"
        return engine.call(sent.model_copy(update={"delivery_id": name, "incarnation": 1}))

    parent = engine.lease(request)
    engine.admit(parent.namespace, parent.generation, 1)
    first = inside(parent, 1)
    past = engine.so_far(parent.namespace, parent.generation)
    fork = engine.lease(fork_request(request, "fork"), past)
    with pytest.raises(LateWrite, match="incarnation"):
        inside(fork, 2)
    engine.admit(fork.namespace, fork.generation, 1)
    name = f"fork/{fork.generation}/0/0/http/1"
    assert inside(fork, 1) == first.model_copy(update={"delivery_id": name})
    assert inside(fork, 2).first == first.last + 1


def played_on(engine: Engine, request: LeaseRequest, past: Past) -> Lease:
    """Lease, and send every call, those of the past again."""
    lease = engine.lease(request, past)
    for turn, asked in enumerate(EVERYTHING):
        engine.call(delivery(lease, turn, asked))
    return lease


@pytest.mark.parametrize("moment", ["before commit", "after commit"])
@pytest.mark.parametrize("turn", [0, 1, 5, len(EVERYTHING)])
def test_a_crash_at_any_transaction_of_a_fork_leaves_no_trace(turn: int, moment: Moment) -> None:
    """The first one is the lease: it has taken over all, or nothing."""
    store = MemoryWorlds()
    request = lease_request(template=TemplateRef(name="jobs"), faults=PLAN)
    run = ran(Engine(WORLDS, store), request, EVERYTHING)
    for nth in count(1):
        died, heir = CrashingWorlds(store, nth, moment), fork_request(request, f"heir-{nth}")
        with suppress(ProcessDied):
            played_on(Engine(WORLDS, died), heir, run.pasts[turn])
        engine = Engine(WORLDS, store)
        facts = ended(engine, played_on(engine, heir, run.pasts[turn]))
        assert anonymous_facts(facts, heir.episode_id) == anonymous_facts(run.facts, "ep-1")
        assert flaws(facts) == ()
        assert engine.recycle(facts.namespace, facts.generation)
        assert [one.episode_id for one in engine.leases()] == ["ep-1"]
        if died.transactions < nth:
            break
    assert nth > len(EVERYTHING)


class TestRefusals:
    """Each names the field and the way to mend it, and no namespace is leased."""

    ENGINE = Engine(WORLDS, MemoryWorlds())
    REQUEST = lease_request(template=TemplateRef(name="jobs"), faults=PLAN)
    WHOLE = ran(ENGINE, REQUEST, EVERYTHING).pasts[-1]

    def refused(self, past: Past, request: LeaseRequest = REQUEST, field: str = "past") -> str:
        before = self.ENGINE.leases()
        with pytest.raises(BadInput) as caught:
            self.ENGINE.lease(fork_request(request, "refused"), past)
        assert (caught.value.field, bool(caught.value.fix)) == (field, True)
        assert self.ENGINE.leases() == before
        return caught.value.message

    def test_a_past_over_another_template(self) -> None:
        default = lease_request()
        assert "another template than default of tally" in self.refused(self.WHOLE, default, "template")

    def test_a_call_under_way(self) -> None:
        last = self.WHOLE.deliveries[-1].model_copy(update={"reply": None})
        opened = self.WHOLE.model_copy(update={"deliveries": (*self.WHOLE.deliveries[:-1], last)})
        assert f"{last.delivery_id} was still under way" in self.refused(opened)

    def test_a_wait_under_way(self) -> None:
        """The past of an episode that goes on may have one; it can be forked before it."""
        engine = Engine(WORLDS, MemoryWorlds())
        lease = engine.lease(self.REQUEST)
        engine.call(delivery(lease, 0, EVERYTHING[0]))
        wait = Sent.of(delivery(lease, 1, Asked("wait", {"seconds": 90})))
        assert engine.deliveries.step(wait) is engine.deliveries.step(wait) is None
        past = engine.so_far(lease.namespace, lease.generation)
        with pytest.raises(BadInput, match="ep-1/1/1/0 was still under way"):
            engine.lease(fork_request(self.REQUEST, "heir"), past)
        with pytest.raises(BadInput, match="under way when turn 2 began"):
            until_turn(past, 2)
        heir = engine.lease(fork_request(self.REQUEST, "heir"), until_turn(past, 1))
        engine.call(wait.request)
        engine.call(delivery(heir, 1, Asked("wait", {"seconds": 90})))
        assert anonymous_facts(ended(engine, heir), "heir") == anonymous_facts(ended(engine, lease), "ep-1")

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"episode_id": "ep-2"}, "is none of ep-2/1/"),
            ({"generation": 2}, "is none of ep-1/2/"),
            ({"deliveries": (*WHOLE.deliveries, WHOLE.deliveries[0])}, "the same id"),
            ({"deliveries": WHOLE.deliveries[:-1]}, "of its ledger is missing"),
            ({"deliveries": WHOLE.deliveries[1:]}, "of its ledger is missing"),
            ({"ledger": WHOLE.ledger[:-1]}, "ends before its last delivery"),
            ({"ledger": WHOLE.ledger[1:]}, "ends before its last delivery"),
            ({"ledger": (*WHOLE.ledger, WHOLE.ledger[-1])}, "does not go on"),
            ({"ledger": (WHOLE.ledger[1], WHOLE.ledger[0], *WHOLE.ledger[2:])}, "does not go on"),
            ({"ledger": (WHOLE.ledger[0].model_copy(update={"before": 9}), *WHOLE.ledger[1:])}, "does not go on"),
            ({"ledger": (WHOLE.ledger[0].model_copy(update={"after": 9}), *WHOLE.ledger[1:])}, "does not go on"),
            ({"ledger": (WHOLE.ledger[0].model_copy(update={"world": "x"}), *WHOLE.ledger[1:])}, "the world x"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_past_that_is_not_whole(self, changes: dict[str, object], why: str) -> None:
        assert why in self.refused(self.WHOLE.model_copy(update=changes))

    def test_the_same_owner_with_another_past(self) -> None:
        engine = Engine(WORLDS, MemoryWorlds())
        run = ran(engine, self.REQUEST, EVERYTHING)
        heir, plain = fork_request(self.REQUEST, "heir"), fork_request(self.REQUEST, "plain")
        lease = engine.lease(heir, run.pasts[3])
        assert engine.lease(heir, run.pasts[3].model_copy()) == lease
        engine.lease(plain)
        for request, past in ((heir, run.pasts[4]), (heir, None), (plain, run.pasts[0])):
            with pytest.raises(BadInput, match="for another request") as caught:
                engine.lease(request, past)
            assert caught.value.field == "owner"

    def test_what_has_been_given_back_tells_no_past(self) -> None:
        engine = Engine(WORLDS, MemoryWorlds())
        lease = engine.lease(self.REQUEST)
        for generation in (lease.generation - 1, lease.generation + 1):
            with pytest.raises(BadInput) as caught:
                engine.so_far(lease.namespace, generation)
            assert caught.value.field == "generation"
        engine.quarantine(lease.namespace, lease.generation, "unknown outcome")
        with pytest.raises(BadInput):
            engine.so_far(lease.namespace, lease.generation)
