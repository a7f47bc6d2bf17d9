"""Operation ids: the agent's own names for its effects, and their receipts."""

from schemas.base import JsonValue
from tiltyard.testing.engine_bench import Bench


def test_the_same_operation_takes_effect_once_and_is_answered_alike() -> None:
    bench = Bench()
    first = bench.call("add", name="plums", operation_id="op-1")
    again = bench.call("add", amount=1, name="plums", operation_id="op-1")
    assert again.shown == first.shown
    assert (first.committed, again.committed) == (True, False)
    assert bench.total("plums") == 1


def test_another_operation_under_the_same_name_is_refused() -> None:
    bench = Bench()
    bench.call("add", name="plums", operation_id="op-1")
    calls: list[tuple[str, dict[str, JsonValue]]] = [("add", {"amount": 2}), ("remove", {})]
    for tool, arguments in calls:
        shown = bench.send(tool, {"name": "plums", "operation_id": "op-1", **arguments}).shown
        assert (shown.status, shown.code) == ("error", "operation_id_conflict")
        assert "operation_id" in shown.message
    assert bench.total("plums") == 1


def test_a_new_name_is_a_new_effect() -> None:
    bench = Bench()
    for number in range(3):
        bench.call("add", name="plums", operation_id=f"op-{number}")
    assert bench.total("plums") == 3
    facts = bench.finish()
    assert [receipt.operation_id for receipt in facts.receipts] == ["op-0", "op-1", "op-2"]
    assert [row.operation_id for row in facts.ledger if row.key == "plums"] == ["op-0", "op-1", "op-2"]


def test_a_refused_operation_has_no_receipt_and_may_be_tried_again() -> None:
    bench = Bench()
    for _ in range(2):
        assert bench.call("remove", name="plums", operation_id="op-1").shown.code == "not_found"
    bench.call("add", name="plums")
    assert bench.call("get_receipt", operation_id="op-1").shown.code == "not_found"
    assert bench.call("remove", name="plums", operation_id="op-1").shown.content == "removed"
    assert bench.call("get_receipt", operation_id="op-1").shown.status == "ok"


def test_a_receipt_is_written_with_its_effect() -> None:
    bench = Bench()
    reply = bench.call("add", name="plums", operation_id="\x00 é", delivery="d1")
    rows = [row for row in bench.finish().ledger if row.cause == "d1"]
    assert {row.collection for row in rows} == {"~clock", "~faults", "~receipts", "tallies"}
    assert (reply.first, reply.last) == (rows[0].position, rows[-1].position)


def test_operation_ids_are_for_writes() -> None:
    shown = Bench().call("read", name="apples", operation_id="op-1").shown
    assert (shown.code, "operation_id" in shown.message) == ("bad_arguments", True)
