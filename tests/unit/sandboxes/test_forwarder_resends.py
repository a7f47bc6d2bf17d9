"""The forwarder in this process: what was not answered is sent again, and takes effect once."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from infra.sandboxes.supervisor.forwarder import Forwarder
from schemas.sandbox import WorldAccess
from tests.unit.sandboxes.forwarder_den import OP, Den, Sent, post
from tiltyard.episode.delivery import Reconciler
from tiltyard.sandbox.service import Asked, WorldService
from tiltyard.testing.engine_bench import lease_request
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine


@pytest.fixture
def den() -> Iterator[Den]:
    made = Den()
    yield made
    made.forwarder.close()


def test_what_was_not_answered_is_sent_again_under_its_number(den: Den) -> None:
    caller = den.call(post())
    den.until(lambda: den.sent)
    den.forwarder.send()  # a new host has come
    first, second = den.sent
    assert first == second
    den.answer(second, b"1")
    den.answer(first, b"2")  # that of the old host comes late
    assert den.heard(caller, b"\r\n\r\n1")
    assert den.dealings.clock == {"now_s": 3, "elsewhere_s": 0}
    caller.close()


class NumbersAnew(Forwarder):
    """A sabotage: what is sent again has a new number."""

    def send(self) -> None:
        if self._sent is not None:
            said = json.loads(self._sent[0])
            said["number"] = self._numbers[OP] = self._numbers[OP] + 1
            self._sent = json.dumps(said).encode(), self._sent[1]
        super().send()


async def effects_of_a_lost_reply(kind: type[Forwarder]) -> tuple[int, str]:
    """(how often a call took effect whose first reply was lost with its host, what its program was answered)."""
    den = Den(kind=kind)
    engine = Engine({"tally": TALLY}, MemoryWorlds())
    lease = engine.lease(lease_request(inside_tools=("add",)))
    engine.admit(lease.namespace, lease.generation, 1)
    service = WorldService(LocalWorld(engine), Reconciler(LocalWorld(engine), timedelta(seconds=1)))
    access = WorldAccess(world="tally", namespace=lease.namespace, generation=lease.generation)

    async def told(sent: Sent) -> bytes:
        asked = Asked("tally.world", "POST", sent.path, sent.body, f"{sent.op_id}/http/{sent.number}")
        return (await service.answer(access, 1, {"tally": ("add",)}, asked)).body

    caller = den.call(post("add", b'{"name":"apples"}'))
    den.until(lambda: den.sent)
    await told(den.sent[0])
    den.forwarder.send()
    den.answer(den.sent[1], await told(den.sent[1]))
    heard = den.heard(caller, b"}")
    caller.close()
    den.forwarder.close()
    engine.seal(lease.namespace, lease.generation)
    facts = engine.facts(lease.namespace, lease.generation)
    effects = sum(bool(one.reply and one.reply.committed) for one in facts.deliveries)
    return effects, heard.partition(b"\r\n\r\n")[2].decode()


async def test_a_lost_reply_is_no_second_effect() -> None:
    effects, heard = await effects_of_a_lost_reply(Forwarder)
    assert (effects, json.loads(heard)["amounts"]) == (1, [1])


async def test_without_the_number_the_second_effect_is_there() -> None:
    effects, heard = await effects_of_a_lost_reply(NumbersAnew)
    assert (effects, json.loads(heard)["amounts"]) == (2, [1, 1])


def test_a_call_that_comes_while_no_host_is_there_waits_for_the_next_one(den: Den) -> None:
    den.gone = True
    caller = den.call(post())
    den.until(lambda: den.written)
    assert den.sent == []
    den.gone = False
    den.forwarder.send()
    assert [one.number for one in den.sent] == [1]
    caller.close()
