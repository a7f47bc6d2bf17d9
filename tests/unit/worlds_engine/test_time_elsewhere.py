"""A world's clock makes up for the time that an episode spends outside of it, once."""

from schemas.world import DeliveryReply
from tiltyard.testing.engine_bench import Bench
from tiltyard.worlds.clock import MAX_JOBS


def call(bench: Bench, tool: str, elsewhere_s: int, delivery: str = "", **arguments: int | str) -> DeliveryReply:
    request = bench.request(tool, dict(arguments), delivery)
    return bench.engine.call(request.model_copy(update={"elsewhere_s": elsewhere_s}))


def test_time_elsewhere_counts_once_and_jobs_fall_due_in_it() -> None:
    bench = Bench()
    call(bench, "add_later", 0, name="plums", after_s=10)
    assert call(bench, "names", 8).now_s == 1 + 8 + 1
    assert call(bench, "names", 8).now_s == 11, "the same eight seconds are not made up for again"
    assert call(bench, "names", 20).now_s == 11 + 12 + 1
    facts = bench.finish()
    assert [row.at_s for row in facts.ledger if row.key == "plums"] == [11]


def test_a_repeated_delivery_moves_no_clock() -> None:
    bench = Bench()
    first = call(bench, "names", 30, delivery="d-1")
    assert call(bench, "names", 30, delivery="d-1") == first
    assert call(bench, "names", 30).now_s == first.now_s + 1


def test_a_call_that_meets_too_many_jobs_leaves_the_rest_of_the_time_to_the_next() -> None:
    bench = Bench()
    call(bench, "tick", 0, name="plums", every_s=1, times=MAX_JOBS + 50)
    stopped = call(bench, "names", MAX_JOBS + 100)
    assert stopped.shown.code == "too_many_jobs"
    assert stopped.now_s == MAX_JOBS + 1
    assert call(bench, "names", MAX_JOBS + 100).now_s == 1 + MAX_JOBS + 100 + 1


def test_a_wait_begins_after_the_time_elsewhere() -> None:
    bench = Bench()
    assert call(bench, "wait", 50, seconds=10).shown.content == {"now_s": 60, "waited_s": 10}
