"""Planned faults: what happens, what is shown, and that a retry of the harness changes neither."""

import pytest

from schemas.fault import Fault, FaultKind
from tiltyard.testing.engine_bench import Bench


@pytest.mark.parametrize(
    ("kind", "shown", "effect", "now_s"),
    [
        ("commit_then_drop", "timeout", True, 1),
        ("drop_before_commit", "timeout", False, 1),
        ("error_status", "error", False, 1),
        ("delay", "ok", True, 91),
    ],
)
def test_each_kind_does_what_it_says(kind: FaultKind, shown: str, effect: bool, now_s: int) -> None:
    bench = Bench(faults=[Fault(tool="add", kind=kind, nth=1, delay_s=90, code="busy", message="come back")])
    reply = bench.call("add", name="plums", delivery="d1")
    assert (reply.shown.status, reply.committed, reply.now_s, reply.fault) == (shown, effect, now_s, kind)
    if kind == "error_status":
        assert (reply.shown.code, reply.shown.message) == ("busy", "come back")
    if shown == "timeout":
        assert reply.shown.content is None
    assert bench.call("add", name="plums", delivery="d1") == reply
    assert bench.call("add", name="plums", delivery="d2").fault == "", "only the first logical call"
    assert bench.total("plums") == (2 if effect else 1)


def test_the_plan_counts_logical_calls_of_its_tool_and_not_retries() -> None:
    bench = Bench(faults=[Fault(tool="add", kind="error_status", nth=3)])
    fired = []
    for delivery, tool in [
        ("d1", "add"),
        ("d1", "add"),
        ("d2", "names"),
        ("d3", "add"),
        ("d3", "add"),
        ("d4", "add"),
    ]:
        fired.append(bench.send(tool, {"name": "plums"} if tool == "add" else {}, delivery).fault)
    assert fired == ["", "", "", "", "", "error_status"]


def test_a_window_of_virtual_time_opens_and_ends() -> None:
    bench = Bench(faults=[Fault(tool="read", kind="error_status", from_s=10, until_s=20)])
    shown = {}
    while (now_s := bench.call("add", name="plums").now_s) < 24:
        shown[now_s] = bench.call("read", name="plums").shown.status
    assert shown == {1: "ok", 7: "ok", 13: "error", 19: "error"}


def test_the_first_row_that_matches_fires() -> None:
    plan = [Fault(tool="add", kind="delay", nth=2, delay_s=5), Fault(tool="add", kind="error_status")]
    bench = Bench(faults=plan)
    assert [bench.call("add", name="plums").fault for _ in range(3)] == ["error_status", "delay", "error_status"]


def test_a_delay_runs_the_jobs_that_fall_due_meanwhile() -> None:
    bench = Bench(faults=[Fault(tool="add", kind="delay", delay_s=100)])
    bench.call("add_later", name="plums", after_s=50)
    reply = bench.call("add", name="apples")
    assert reply.now_s == 102
    assert bench.total("plums") == 1


def test_a_receipt_service_that_is_down_is_a_fault_like_any_other() -> None:
    plan = [
        Fault(tool="add", kind="commit_then_drop", nth=1),
        Fault(tool="get_receipt", kind="error_status", nth=1, code="503"),
    ]
    bench = Bench(faults=plan)
    assert bench.call("add", name="plums", operation_id="op-1").shown.status == "timeout"
    assert bench.call("get_receipt", operation_id="op-1").shown.code == "503"
    receipt = bench.call("get_receipt", operation_id="op-1").shown.content
    assert receipt == {
        "operation_id": "op-1",
        "tool": "add",
        "accepted_at_s": 1,
        "result": {"name": "plums", "total": 1, "amounts": [1]},
    }


@pytest.mark.parametrize(
    ("kind", "status", "now_s"),
    [
        ("commit_then_drop", "timeout", 60),
        ("drop_before_commit", "timeout", 0),
        ("error_status", "error", 0),
        ("delay", "ok", 65),
    ],
)
def test_faults_of_wait(kind: FaultKind, status: str, now_s: int) -> None:
    bench = Bench(faults=[Fault(tool="wait", kind=kind, nth=1, delay_s=5)])
    reply = bench.call("wait", seconds=60, delivery="d1")
    assert (reply.shown.status, reply.now_s, reply.fault) == (status, now_s, kind)
    assert bench.call("wait", seconds=60, delivery="d1") == reply
    assert bench.call("wait", seconds=60, delivery="d2").now_s == now_s + 60
