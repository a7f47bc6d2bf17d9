"""The effect protocol, explored exhaustively over the real engine and journal; without each of its mechanisms
in turn, a counterexample is found."""

from collections.abc import Callable

import pytest

from tiltyard.testing.effect_promises import Promises
from tiltyard.testing.effect_protocol import EffectProtocol, Rules, State
from tiltyard.testing.explorer import Exploration, explore
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.custody import Custody
from tiltyard.worlds.deliveries import Deliveries, Sent
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.leasing import Leasing
from tiltyard.worlds.store import Delivery, Namespace, WorldTx

Sabotage = Callable[[Engine, MemoryWorlds], None]


def run(rules: Rules, sabotage: Sabotage = lambda engine, store: None) -> Exploration[State]:
    store = MemoryWorlds()
    engine = Engine({"tally": TALLY}, store)
    sabotage(engine, store)
    protocol = EffectProtocol(engine, store, rules)
    return explore(protocol.start, protocol.moves, Promises(protocol).check)


@pytest.mark.parametrize(
    "rules",
    [
        Rules(attempts=2, turns=2),
        Rules(attempts=3, turns=1),
        pytest.param(Rules(attempts=2, turns=3), marks=pytest.mark.chaos),
        pytest.param(Rules(attempts=3, turns=2), marks=pytest.mark.chaos),
    ],
    ids=lambda rules: f"{rules.attempts} attempts, {rules.turns} turns",
)
def test_every_promise_holds_in_every_state(rules: Rules, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(rules)
    with capsys.disabled():
        print(f"\n{rules.attempts} attempts, {rules.turns} turns: {found}")
    assert found.wrong == "", str(found)
    assert found.states > 10_000
    assert found.final > 1


def no_generation_check(engine: Engine, store: MemoryWorlds) -> None:
    class Unfenced(Deliveries):
        def admits(self, namespace: Namespace, generation: int) -> bool:
            return True

    engine.deliveries = Unfenced(store, engine.desk, engine.in_flight)


def no_record_look_up(engine: Engine, store: MemoryWorlds) -> None:
    class Forgetful(Deliveries):
        def earlier(self, tx: WorldTx, namespace: Namespace, sent: Sent) -> Delivery | None:
            return None

    engine.deliveries = Forgetful(store, engine.desk, engine.in_flight)


def no_request_check(engine: Engine, store: MemoryWorlds) -> None:
    class Credulous(Deliveries):
        def same_request(self, earlier: Delivery, sent: Sent) -> bool:
            return True

    engine.deliveries = Credulous(store, engine.desk, engine.in_flight)


def no_fence_at_the_seal(engine: Engine, store: MemoryWorlds) -> None:
    class Unmoving(Custody):
        def sealed(self, namespace: Namespace) -> Namespace:
            return super().sealed(namespace).model_copy(update={"fence": namespace.fence})

    engine.custody = Unmoving(store, engine.desk, engine.in_flight)


def no_new_generation_at_the_lease(engine: Engine, store: MemoryWorlds) -> None:
    class Unmoving(Leasing):
        def next_generation(self, namespace: Namespace) -> int:
            return max(1, namespace.fence)

    engine.leasing = Unmoving(store, engine.desk)


def nothing(engine: Engine, store: MemoryWorlds) -> None:
    """The world is whole; the harness is not."""


@pytest.mark.parametrize(
    ("sabotage", "rules", "wrong"),
    [
        (no_generation_check, Rules(), "I2: recorded after the seal"),
        (no_record_look_up, Rules(), "I1: several effects of one cause"),
        (no_fence_at_the_seal, Rules(ends=3), "I2: recorded after the seal"),
        (no_fence_at_the_seal, Rules(), "recycled: False"),
        (no_new_generation_at_the_lease, Rules(), "leased again: False"),
        (nothing, Rules(journal_first=False), "the harness was told: conflict"),
        (no_request_check, Rules(journal_first=False), "the harness was told: 1"),
        (nothing, Rules(own_token=False), "the harness was told: conflict"),
        (nothing, Rules(reconcile=False), "I2: the journal says timeout"),
    ],
    ids=[
        "generation check",
        "record look-up",
        "seal moves the generation",
        "seal moves the generation (and recycling notices)",
        "lease moves the generation",
        "journal before sending",
        "request check (and journal before sending)",
        "writer token",
        "reconcile before going on",
    ],
)
def test_without_one_mechanism_a_counterexample_is_found(
    sabotage: Sabotage, rules: Rules, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(rules, sabotage)
    with capsys.disabled():
        print(f"\n{found}")
    assert found.wrong.startswith(wrong)
    assert found.path
