"""The clock, deferred jobs and ``wait``."""

import pytest

from tiltyard.errors import LateWrite
from tiltyard.testing.crashing_worlds import CrashingWorlds, ProcessDied
from tiltyard.testing.engine_bench import Bench
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.clock import MAX_JOBS
from tiltyard.worlds.engine import Engine


def test_jobs_run_at_their_time_in_due_order_and_then_as_scheduled() -> None:
    bench = Bench()
    for number, after_s in enumerate([50, 20, 20, 19]):
        bench.call("add_later", name="plums", amount=number, after_s=after_s)
    reply = bench.call("wait", seconds=100)
    assert reply.shown.content == {"now_s": 104, "waited_s": 100}
    facts = bench.finish()
    assert [(job.job_id, job.due_s, job.state) for job in facts.jobs] == [
        ("job-000001", 51, "done"),
        ("job-000002", 22, "done"),
        ("job-000003", 23, "done"),
        ("job-000004", 23, "done"),
    ]
    ran = [(row.cause, row.at_s) for row in facts.ledger if row.cause_kind == "job" and not row.system]
    assert ran == [("job-000002", 22), ("job-000003", 23), ("job-000004", 23), ("job-000001", 51)]


def test_jobs_run_when_calls_move_the_clock() -> None:
    bench = Bench()
    bench.call("add_later", name="plums", after_s=3)
    assert bench.total("plums") is None or bench.total("plums") == 1
    facts = bench.finish()
    assert [row.at_s for row in facts.ledger if row.key == "plums"] == [4]


def test_jobs_of_the_template_are_pending_from_the_start_and_a_broken_one_changes_nothing() -> None:
    bench = Bench(template="jobs")
    bench.call("add_later", name="plums", after_s=10)
    bench.call("wait", seconds=200)
    facts = bench.finish()
    assert [(job.job_id, job.kind, job.state, job.error) for job in facts.jobs] == [
        ("job-000001", "add_due", "done", ""),
        ("job-000002", "break_due", "failed", "KeyError"),
        ("job-000003", "add_due", "done", ""),
    ]
    assert [change.key for change in facts.changes] == ["apples", "plums"]


def test_a_chain_of_jobs_goes_on_within_one_wait() -> None:
    bench = Bench()
    bench.call("tick", name="plums", every_s=1, times=50)
    assert bench.call("wait", seconds=30).now_s == 31
    assert bench.total("plums") == 35, "the read itself takes five seconds"


def test_jobs_are_scheduled_at_least_a_second_ahead() -> None:
    bench = Bench()
    for after_s in (0, -5, 10**12):
        shown = bench.call("add_later", name="plums", after_s=after_s).shown
        assert (shown.code, "after_s" in shown.message) == ("bad_arguments", True)


def test_a_call_runs_so_many_jobs_and_no_more() -> None:
    bench = Bench()
    bench.call("tick", name="plums", every_s=1, times=MAX_JOBS + 300)
    reply = bench.call("wait", seconds=5_000, delivery="w1")
    assert (reply.shown.code, reply.now_s) == ("too_many_jobs", 1 + MAX_JOBS)
    assert bench.call("wait", seconds=5_000, delivery="w1") == reply
    assert bench.call("wait", seconds=5_000).shown.status == "ok"
    assert bench.total("plums") == MAX_JOBS + 300


@pytest.mark.parametrize("seconds", [0, -1, 366 * 86_400 + 1, "soon", None, 1.5])
def test_wait_has_bounds(seconds: float | str | None) -> None:
    shown = Bench().call("wait", seconds=seconds).shown
    assert (shown.code, "seconds: " in shown.message) == ("bad_arguments", True)


def test_the_longest_wait() -> None:
    assert Bench().call("wait", seconds=366 * 86_400).now_s == 366 * 86_400


def interrupted_wait(store: MemoryWorlds) -> Bench:
    """A wait whose server died after two of its five jobs."""
    bench = Bench(store=store)
    bench.call("tick", name="plums", every_s=10, times=5)
    bench.engine = Engine({"tally": TALLY}, CrashingWorlds(store, 3, "after commit"))
    with pytest.raises(ProcessDied):
        bench.call("wait", seconds=45, delivery="w1")
    bench.again()
    return bench


def test_a_wait_that_was_cut_short_goes_on_where_it_stopped() -> None:
    bench = interrupted_wait(MemoryWorlds())
    reply = bench.call("wait", seconds=45, delivery="w1")
    assert reply.shown.content == {"now_s": 46, "waited_s": 45}
    assert bench.total("plums") == 5
    assert reply.first == 5, "its range begins where it was opened"


def test_a_seal_in_the_middle_of_a_wait_ends_it() -> None:
    bench = interrupted_wait(MemoryWorlds())
    facts = bench.finish()
    with pytest.raises(LateWrite):
        bench.call("wait", seconds=45, delivery="w1")
    assert [(one.delivery_id, one.reply) for one in facts.deliveries if one.reply is None] == [("w1", None)]
    assert facts.now_s == 21
    after = bench.engine.facts(bench.lease.namespace, bench.lease.generation)
    assert after.model_copy(update={"late": ()}) == facts.model_copy(update={"late": ()})


def test_other_calls_may_come_while_a_wait_is_open() -> None:
    bench = interrupted_wait(MemoryWorlds())
    assert bench.total("plums") == 2
    assert bench.call("wait", seconds=45, delivery="w1").shown.content == {"now_s": 46, "waited_s": 45}
    assert bench.call("wait", seconds=100, delivery="w2").now_s == 146
    assert bench.total("plums") == 5
