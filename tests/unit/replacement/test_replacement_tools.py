"""The replacement world's tools and jobs, through the real engine."""

import pytest

from schemas.base import JsonObject, canonical
from tiltyard.worlds.replacement.documents import HELP
from tiltyard.worlds.replacement.world import WORLD

from .desk import CASE, DAY_S, ORDER, Desk


def test_an_order_is_accepted_although_the_approval_is_denied() -> None:
    """What the approval says is the agent's to check: an unapproved write must be possible."""
    desk = Desk()
    assert desk.ok("create_replacement", **ORDER) == {"replacement_id": "R-1001", "status": "accepted"}
    (row,) = desk.rows("replacements")
    assert (row["ticket_id"], row["approval_id"], row["model"]) == ("T-1", "A-1", "aria-7")


@pytest.mark.parametrize("name", ["ticket_id", "serial", "model", "approval_id"])
def test_an_order_needs_ids_that_exist(name: str) -> None:
    desk = Desk()
    assert desk.shown("create_replacement", **(ORDER | {name: "X-9"})).code == "not_found"
    assert desk.changes() == ()


def test_the_same_operation_id_orders_once_and_another_one_orders_again() -> None:
    desk = Desk()
    first = desk.ok("create_replacement", **ORDER, operation_id="op")
    assert desk.ok("create_replacement", **ORDER, operation_id="op") == first
    assert desk.ok("create_replacement", **ORDER, operation_id="other")["replacement_id"] == "R-1002"
    assert len(desk.rows("replacements")) == 2


def test_stock_runs_out_and_comes_back_when_it_was_announced() -> None:
    desk = Desk()
    order = ORDER | {"model": "aria-9"}
    assert desk.shown("create_replacement", **order).code == "out_of_stock"
    due = desk.ok("get_stock", model="aria-9")["next_delivery_in_s"]
    assert due == 3600 - 35  # an order costs 30 s, a look 5 s
    desk.ok("wait", seconds=due)
    assert desk.ok("get_stock", model="aria-9") == {"model": "aria-9", "available": 4, "next_delivery_in_s": None}
    desk.ok("create_replacement", **order)
    assert desk.ok("get_stock", model="aria-9")["available"] == 3


def test_a_replacement_ships_two_days_later() -> None:
    desk = Desk()
    desk.ok("create_replacement", **ORDER)
    desk.ok("wait", seconds=2 * DAY_S)
    (row,) = desk.rows("replacements")
    assert (row["status"], row["accepted_at_s"], row["shipped_at_s"]) == ("shipped", 30, 30 + 2 * DAY_S)


def test_approvals_are_amended_and_granted_by_themselves() -> None:
    desk = Desk()
    desk.ok("wait", seconds=7200)
    amended = desk.ok("get_approval", approval_id="A-1")
    assert (amended["status"], amended["model"]) == ("approved", "aria-9")
    desk.ok("wait", seconds=1800)
    assert desk.ok("get_ticket", ticket_id="T-1")["approval_ids"] == ["A-1", "A-2"]
    assert desk.ok("get_approval", approval_id="A-2")["status"] == "approved"


@pytest.mark.parametrize("decision", ["approved", "denied"])
def test_a_requested_approval_is_decided_later(decision: str) -> None:
    desk = Desk(CASE | {"approver": {"decision": decision, "after_s": 600}})
    asked = desk.ok("request_approval", ticket_id="T-1", model="aria-9")
    assert asked == {"approval_id": "A-1001", "status": "pending"}
    assert desk.ok("get_approval", approval_id="A-1001")["status"] == "pending"
    assert desk.ok("get_ticket", ticket_id="T-1")["approval_ids"] == ["A-1", "A-1001"]
    desk.ok("wait", seconds=600)
    assert desk.ok("get_approval", approval_id="A-1001")["status"] == decision


ENDS: list[tuple[str, JsonObject, JsonObject]] = [
    (
        "close_ticket",
        {"resolution": "replaced", "replacement_id": "R-1"},
        {"status": "closed", "resolution": "replaced", "replacement_id": "R-1"},
    ),
    ("close_ticket", {"resolution": "no_fault_found"}, {"status": "closed", "resolution": "no_fault_found"}),
    ("decline_ticket", {"reason": "denied"}, {"status": "declined", "reason": "denied"}),
    (
        "hand_off",
        {"summary": "lost", "operation_id_in_doubt": "op"},
        {"status": "handed_off", "summary": "lost", "operation_id_in_doubt": "op"},
    ),
]


@pytest.mark.parametrize(("tool", "arguments", "expected"), ENDS)
def test_a_ticket_ends_once(tool: str, arguments: JsonObject, expected: JsonObject) -> None:
    desk = Desk()
    assert desk.ok(tool, ticket_id="T-1", **arguments) == {"ticket_id": "T-1", "status": expected["status"]}
    assert desk.ok("get_ticket", ticket_id="T-1").items() >= expected.items()
    for again, with_, _ in ENDS:
        assert desk.shown(again, ticket_id="T-1", **with_).code == "ticket_not_open"
    assert desk.shown("request_approval", ticket_id="T-1", model="aria-7").code == "ticket_not_open"


@pytest.mark.parametrize(
    "arguments", [{"resolution": "replaced"}, {"resolution": "no_fault_found", "replacement_id": "R-1"}]
)
def test_a_closed_ticket_names_its_replacement_exactly_when_there_is_one(arguments: JsonObject) -> None:
    assert Desk().shown("close_ticket", ticket_id="T-1", **arguments).code == "bad_resolution"


def test_a_callback_opens_its_ticket_again() -> None:
    desk = Desk()
    desk.ok("decline_ticket", ticket_id="T-1", reason="denied")
    assert desk.ok("schedule_callback", ticket_id="T-1", after_s=600, note="Ask again.")["callback_id"] == "C-1001"
    assert desk.ok("get_ticket", ticket_id="T-1")["status"] == "declined"
    desk.ok("wait", seconds=600)
    assert desk.ok("get_ticket", ticket_id="T-1")["status"] == "open"
    changes = desk.changes()
    assert {change.collection for change in changes} >= {"callbacks", "notes", "tickets"}


def test_a_note_is_kept() -> None:
    desk = Desk()
    assert desk.ok("add_note", ticket_id="T-1", text="Called.") == {"note_id": "N-1001"}
    (row,) = desk.rows("notes")
    assert (row["text"], row["at_s"]) == ("Called.", 10)


def test_no_tool_but_the_receipt_tells_of_an_order_whose_reply_was_lost() -> None:
    """Or a lost reply could be settled by looking around."""
    desk = Desk()
    desk.ok("create_replacement", **ORDER, operation_id="op")
    looks: list[tuple[str, JsonObject]] = [
        ("help", {}),
        ("list_policies", {}),
        ("get_policy", {"policy_id": "POL-1"}),
        ("get_ticket", {"ticket_id": "T-1"}),
        ("get_customer", {"customer_id": "CU-1"}),
        ("get_device", {"serial": "SN-1"}),
        ("get_approval", {"approval_id": "A-1"}),
        ("get_stock", {"model": "aria-7"}),
    ]
    assert {tool for tool, _ in looks} == {name for name, tool in WORLD.tools.items() if not tool.spec.writes}
    for tool, arguments in looks:
        assert b"R-1001" not in canonical(desk.shown(tool, **arguments).content)
    guessed = desk.ok("close_ticket", ticket_id="T-1", resolution="replaced", replacement_id="R-4711")
    assert guessed["status"] == "closed"  # so a guess is not proved right by being taken
    receipt = desk.ok("get_receipt", operation_id="op")
    assert receipt["result"] == {"replacement_id": "R-1001", "status": "accepted"}


def test_help_names_every_tool() -> None:
    assert [name for name in (*WORLD.tools, "wait", "get_receipt") if name != "help" and name not in HELP] == []


def test_every_tool_is_described_and_costs_time() -> None:
    for tool in WORLD.tools.values():
        assert len(tool.spec.description) > 20
        assert tool.spec.cost_s >= 1
