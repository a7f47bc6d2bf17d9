"""Tool calls on the engine: what is recorded, what is shown, what stays."""

import pytest

from tiltyard.errors import BadInput, DeliveryConflict, LateWrite
from tiltyard.testing.engine_bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_call_changes_the_world_once_however_often_it_is_sent(bench: Bench) -> None:
    replies = [bench.call("add", name="apples", amount=3, delivery="d1") for _ in range(3)]
    assert replies[0] == replies[1] == replies[2]
    assert replies[0].committed
    assert replies[0].shown.content == {"name": "apples", "total": 3, "amounts": [3]}
    assert bench.total("apples") == 3


def test_another_request_under_the_same_delivery_id_is_an_error_and_changes_nothing(bench: Bench) -> None:
    bench.call("add", name="apples", delivery="d1")
    with pytest.raises(DeliveryConflict, match="d1"):
        bench.call("add", name="apples", amount=2, delivery="d1")
    assert bench.total("apples") == 1


def test_a_refusal_is_the_recorded_outcome_and_leaves_nothing_behind(bench: Bench) -> None:
    reply = bench.call("add_then_refuse", name="apples", delivery="d1")
    assert (reply.shown.status, reply.shown.code, reply.committed) == ("error", "never", False)
    assert bench.call("add_then_refuse", name="apples", delivery="d1") == reply
    assert bench.call("number").shown.content == 1, "a refused call gives its numbers back"
    assert bench.finish().changes == ()


def test_a_bug_of_a_tool_is_an_outcome_without_its_inner_workings(bench: Bench) -> None:
    reply = bench.call("add_then_break", name="apples")
    assert (reply.shown.status, reply.shown.code) == ("error", "tool_failed")
    assert "a bug of the world" not in reply.shown.message
    assert bench.finish().changes == ()


def test_wrong_arguments_name_the_field_and_what_the_tool_takes(bench: Bench) -> None:
    shown = bench.call("add", nmae="apples", amount="many").shown
    assert (shown.status, shown.code) == ("error", "bad_arguments")
    for part in (
        "name: missing",
        "nmae: add has no such argument",
        "amount: ",
        "add takes name, amount (optional)",
    ):
        assert part in shown.message


def test_unknown_tools_and_tools_off_the_allow_list_are_told_from_known_ones() -> None:
    bench = Bench(tools=("add", "read"))
    for name in ("subtract", "remove", "wait"):
        shown = bench.call(name, name="apples").shown
        assert (shown.code, "use one of add, read" in shown.message) == ("unknown_tool", True)


def test_the_clock_moves_by_the_declared_cost_of_a_call_only(bench: Bench) -> None:
    assert [bench.call(tool, name="apples").now_s for tool in ("add", "read", "nonsense", "add")] == [1, 6, 6, 7]


def test_a_namespace_or_generation_that_was_never_leased_is_refused(bench: Bench) -> None:
    with pytest.raises(BadInput, match="namespace"):
        bench.call("add", name="apples", namespace="ns-999999")
    with pytest.raises(LateWrite):
        bench.call("add", name="apples", generation=7)


def test_the_template_is_not_changed_by_a_tool_that_changes_what_it_read(bench: Bench) -> None:
    bench.call("scribble", name="apples")
    assert bench.total("apples") == 0


def test_the_ledger_is_the_state(bench: Bench) -> None:
    bench.call("add", name="plums", amount=2)
    bench.call("remove", name="pears")
    bench.call("add", name="apples", amount=2)
    bench.call("add", name="apples", amount=-2)
    facts = bench.finish()
    assert [row.position for row in facts.ledger] == list(range(1, len(facts.ledger) + 1))
    assert [(change.key, change.before is None, change.after is None) for change in facts.changes] == [
        ("apples", False, False),
        ("pears", False, True),
        ("plums", True, False),
    ]
    assert facts.changes == facts.before_drain


def test_rows_are_ordered_by_code_points_whatever_they_are_made_of(bench: Bench) -> None:
    names = ["ä", "a", "Z", "\x00", "😀", "~", "é", "z"]
    for name in names:
        bench.call("add", name=name)
    listed = bench.call("names").shown.content
    assert listed == sorted([*names, "apples", "pears"])
    assert [change.key for change in bench.finish().changes] == sorted(names)
