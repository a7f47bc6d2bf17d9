"""A world as programs in a sandbox reach it: what requests mean, and how outcomes are told."""

import json
from datetime import timedelta
from typing import Any

import pytest

from schemas.fault import Fault
from schemas.sandbox import WorldAccess
from schemas.world import Lease
from tiltyard.episode.delivery import Reconciler
from tiltyard.errors import WorldUnreachable
from tiltyard.sandbox.service import Asked, Response, WorldService
from tiltyard.testing.engine_bench import lease_request
from tiltyard.testing.gated_world import GatedWorld
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine

EXPOSES = {"tally": ("add", "read"), "looks": ("read",)}


class Desk:
    """A leased tally world with its service. ``ask`` numbers what it asks, as the forwarder does."""

    def __init__(self, *faults: Fault) -> None:
        self.engine = Engine({"tally": TALLY}, MemoryWorlds())
        self.world = GatedWorld(LocalWorld(self.engine))
        self.lease: Lease = self.engine.lease(lease_request(inside_tools=EXPOSES["tally"], faults=faults))
        self.engine.admit(self.lease.namespace, self.lease.generation, 1)
        self.service = WorldService(self.world, Reconciler(self.world, timedelta(seconds=0.2)))
        self.access = WorldAccess(world="tally", namespace=self.lease.namespace, generation=self.lease.generation)
        self._asked = 0

    async def ask(
        self, method: str, url: str, body: Any = None, number: int = 0, incarnation: int = 1
    ) -> tuple[int, Any, Response]:
        host, _, path = url.partition("/")
        self._asked += 1
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        asked = Asked(host, method, f"/{path}", sent, f"ep/1/0/0/http/{number or self._asked}")
        told = await self.service.answer(self.access, incarnation, EXPOSES, asked)
        return told.status, json.loads(told.body), told


async def test_the_tools_of_a_service_are_listed_with_their_schemas() -> None:
    status, said, told = await Desk().ask("GET", "tally.world/")
    assert status == 200
    assert [tool["name"] for tool in said["tools"]] == ["add", "read"]
    assert set(said["tools"][0]) == {"name", "description", "parameters", "writes"}
    assert "amount" in said["tools"][0]["parameters"]["properties"]
    assert told.now_s is None, "nothing was called"


async def test_a_call_is_answered_with_the_content_and_takes_effect_once() -> None:
    desk = Desk()
    for _ in range(3):
        status, said, told = await desk.ask("POST", "tally.world/add", {"name": "apples", "amount": 2}, number=1)
        assert (status, said["total"], told.now_s) == (200, 2, 1)
    assert (await desk.ask("POST", "looks.world/read", {"name": "apples"}))[1]["total"] == 2
    assert (await desk.ask("POST", "tally.world/read", b'{"name":"apples"}'))[0] == 200


@pytest.mark.parametrize(
    ("method", "url", "body", "status", "code"),
    [
        ("GET", "other.world/", None, 404, "no_such_service"),
        ("GET", "tally/", None, 404, "no_such_service"),
        ("GET", "tally.world.world/", None, 404, "no_such_service"),
        ("POST", "tally.world/", {}, 405, "method_not_allowed"),
        ("GET", "tally.world/add", None, 405, "method_not_allowed"),
        ("DELETE", "tally.world/add", None, 405, "method_not_allowed"),
        ("POST", "tally.world/wait", {"seconds": 1}, 404, "unknown_tool"),
        ("POST", "looks.world/add", {"name": "apples"}, 404, "unknown_tool"),
        ("POST", "tally.world/../add", {"name": "apples"}, 404, "unknown_tool"),
        ("POST", "tally.world//add", {"name": "apples"}, 404, "unknown_tool"),
        ("POST", "tally.world/add?name=apples", {}, 404, "unknown_tool"),
        ("POST", "tally.world/%61dd", {"name": "apples"}, 404, "unknown_tool"),
        ("POST", "tally.world/add", b"", 400, "bad_arguments"),
        ("POST", "tally.world/add", b"[]", 400, "bad_arguments"),
        ("POST", "tally.world/add", b"{", 400, "bad_arguments"),
        ("POST", "tally.world/add", b"\xff", 400, "bad_arguments"),
        ("POST", "tally.world/add", b'{"name":' * 5000, 400, "bad_arguments"),
        ("POST", "tally.world/add", b'{"amount": 1' + b"0" * 6000 + b"}", 400, "bad_arguments"),
        ("POST", "tally.world/add", b'{"name": "apples", "amount": NaN}', 400, "bad_arguments"),
        ("POST", "tally.world/add", b'{"name": "apples", "amount": 1e99999}', 400, "bad_arguments"),
        ("POST", "tally.world/add", b'{"name": "apples", "other": [-Infinity]}', 400, "bad_arguments"),
        ("POST", "tally.world/add", b'{"name": "\\ud800"}', 400, "bad_arguments"),
        ("POST", "tally.world/add", {"name": "apples", "amount": "many"}, 400, "bad_arguments"),
        ("POST", "tally.world/add", {"name": "apples", "other": 1}, 400, "bad_arguments"),
    ],
)
async def test_mistakes_are_the_caller_s_and_say_what_to_do(
    method: str, url: str, body: Any, status: int, code: str
) -> None:
    desk = Desk()
    got, said, _ = await desk.ask(method, url, body)
    assert (got, said["code"]) == (status, code)
    assert said["message"]
    desk.engine.seal(desk.lease.namespace, desk.lease.generation)
    assert desk.engine.facts(desk.lease.namespace, desk.lease.generation).changes == ()


@pytest.mark.parametrize(
    ("kind", "status", "code", "total"),
    [
        ("commit_then_drop", 504, "timeout", 1),
        ("drop_before_commit", 504, "timeout", None),
        ("error_status", 503, "unavailable", None),
        ("delay", 200, "", 1),
    ],
)
async def test_planned_faults_are_those_of_a_service(kind: Any, status: int, code: str, total: int | None) -> None:
    desk = Desk(Fault(tool="add", kind=kind, nth=1, delay_s=30 if kind == "delay" else 0))
    for _ in range(2):  # sent again: the same
        got, said, told = await desk.ask("POST", "tally.world/add", {"name": "new"}, number=1)
        assert (got, said.get("code", "")) == (status, code)
        assert told.now_s == (31 if kind == "delay" else 1)
    desk.engine.seal(desk.lease.namespace, desk.lease.generation)
    changes = desk.engine.facts(desk.lease.namespace, desk.lease.generation).changes
    assert [change.after["total"] for change in changes if isinstance(change.after, dict)] == [total] * bool(total)


async def test_who_comes_from_an_old_incarnation_or_after_the_seal_is_late() -> None:
    desk = Desk()
    desk.engine.admit(desk.lease.namespace, desk.lease.generation, 2)
    assert (await desk.ask("POST", "tally.world/add", {"name": "apples"}))[0] == 410
    assert (await desk.ask("POST", "tally.world/add", {"name": "apples"}, incarnation=2))[0] == 200
    desk.engine.seal(desk.lease.namespace, desk.lease.generation)
    assert (await desk.ask("POST", "tally.world/add", {"name": "apples"}, incarnation=2))[1]["code"] == "late"
    facts = desk.engine.facts(desk.lease.namespace, desk.lease.generation)
    assert len(facts.late) == 2
    assert len(facts.deliveries) == 1


async def test_a_number_names_one_request() -> None:
    desk = Desk()
    await desk.ask("POST", "tally.world/add", {"name": "apples"}, number=1)
    assert (await desk.ask("POST", "tally.world/add", {"name": "pears"}, number=1))[1]["code"] == "conflict"


async def test_a_world_that_is_away_is_no_answer_and_the_same_may_be_asked_again() -> None:
    desk = Desk()
    desk.world.gates["answering"].failing = lambda: WorldUnreachable("away")
    with pytest.raises(WorldUnreachable):
        await desk.ask("POST", "tally.world/add", {"name": "apples"}, number=1)
    desk.world.gates["answering"].failing = None
    status, said, _ = await desk.ask("POST", "tally.world/add", {"name": "apples"}, number=1)
    assert (status, said["amounts"]) == (200, [1]), "it had been carried out, once"
