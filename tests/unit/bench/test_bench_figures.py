"""The arithmetic of the benchmarks: medians, ratios, targets, turns; and what a subject tells, measured small."""

import pytest

from ops.bench import memory, namespaces, throughput
from ops.bench.__main__ import COLUMNS, row_of
from ops.bench.figures import Figure, Measure, Target, interleaved, nine_tenths, timed, timed_call
from ops.bench.machine import PACKAGES, machine
from ops.bench.tasks import CALLS, with_commands, without_sandbox
from schemas.episode import End
from schemas.task import Task
from tiltyard.episode.grading import examine
from tiltyard.policies.catalogue import open_script
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds


def figure(*values: float) -> Figure:
    return Figure.of("it", values)


def test_a_figure_is_the_median_and_what_nine_tenths_do_not_exceed() -> None:
    found = Figure.of("it", [0.004, 0.001, 0.002, 0.003, 9.0])
    assert (found.median, found.nine_tenths, found.count, found.unit) == (3.0, 9000.0, 5, "ms")


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (2, 2), (9, 9), (10, 9), (11, 10), (20, 18), (100, 90)])
def test_nine_tenths_by_rank(count: int, expected: float) -> None:
    assert nine_tenths(range(count, 0, -1)) == expected


def test_of_a_rate_nine_tenths_reach_the_value_that_is_told() -> None:
    rates = [float(rate) for rate in range(1, 11)]
    assert Figure.of("rate", rates, scale=1, more_is_better=True).nine_tenths == 2
    assert Figure.of("time", rates, scale=1).nine_tenths == 9


def test_there_is_no_verdict_on_fewer_than_the_target_is_judged_from() -> None:
    target = Target(most=3, judged_from=3)
    assert figure(9, 9).over(figure(2), target).verdict == "too few"
    assert figure(9, 9, 9).over(figure(2), target).verdict == "missed"
    windows = Figure.of("it", [9], scale=1, episodes=3).over(figure(2), target)
    assert windows.verdict == "met"
    assert row_of(figure(9, 9).over(figure(2), target))[-3:] == ("≤ 3", "too few", "judged from 3")


def test_a_ratio_is_of_medians_and_is_what_the_target_is_of() -> None:
    slow = figure(6, 1, 9).over(figure(2), Target(most=3))
    assert (slow.ratio, slow.against, slow.verdict) == (3.0, "it", "met")
    assert figure(6.1).over(figure(2), Target(most=3)).verdict == "missed"


@pytest.mark.parametrize(
    ("target", "verdict"),
    [(Target(least=12), "met"), (Target(least=12.1), "missed"), (Target(most=11.9), "missed"), (None, "")],
)
def test_a_figure_without_a_ratio_is_held_to_its_target_itself(target: Target | None, verdict: str) -> None:
    assert Figure(what="rate", median=12, target=target).verdict == verdict


def test_what_was_not_measured_is_skipped_and_never_met() -> None:
    nothing = Figure.of("it", [])
    assert nothing.verdict == "skipped"
    assert nothing.over(figure(1), Target(most=1)).verdict == "skipped"
    assert figure(1).over(nothing, Target(most=1)).ratio is None


async def test_measures_take_turns_and_none_is_always_first() -> None:
    told: list[str] = []

    def measure(name: str) -> Measure:
        async def measured() -> float:
            told.append(name)
            return len(told)

        return measured

    series = await interleaved({name: measure(name) for name in "abc"}, rounds=3)
    assert "".join(told) == "cab" + "abc" + "bca" + "cab"  # the first round warms up
    assert series == {"a": [4, 9, 11], "b": [5, 7, 12], "c": [6, 8, 10]}


async def test_what_is_timed_is_done() -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("awaited")

    assert await timed(work)() >= 0
    assert await timed_call(lambda: done.append("called"))() >= 0
    assert done == ["awaited", "called"]


async def test_namespaces_of_each_size_are_measured_and_compared_with_the_smallest() -> None:
    said: list[str] = []
    figures = await namespaces.measure(namespaces.ROUNDS, said.append, sizes=(3, 30))
    assert [one.what for one in figures] == [
        "acquire and recycle, 3 rows",
        "acquire and recycle, 30 rows",
        "loading a template, 3 rows",
        "loading a template, 30 rows",
    ]
    assert [one.ratio is None for one in figures] == [True, False, True, True]
    assert figures[1].target == namespaces.EQUAL
    assert figures[1].verdict in ("met", "missed")
    assert len(said) == 2


async def test_a_short_run_leaves_out_the_largest_template_and_judges_nothing() -> None:
    figures = await namespaces.measure(2, lambda _: None, sizes=(3, 30, 300))
    assert [(one.what, one.verdict) for one in figures] == [
        ("acquire and recycle, 3 rows", ""),
        ("acquire and recycle, 30 rows", "too few"),
        ("acquire and recycle, 300 rows", "skipped"),
        ("loading a template, 3 rows", ""),
        ("loading a template, 30 rows", ""),
    ]


def test_where_the_time_of_episodes_goes_is_told_as_medians_of_the_parts() -> None:
    parts = [
        {"worker": 0.001, "server": 0.002},
        {"worker": 0.003, "server": 0.002},
        {"worker": 0.1, "server": 0.002},
    ]
    figures = throughput.processes(parts, episodes=30)
    assert [(one.what.rpartition(", ")[2], one.median, one.count, one.episodes) for one in figures] == [
        ("worker", 3, 3, 30),
        ("server", 2, 3, 30),
        ("all", 5, 3, 30),
    ]


def test_memory_is_flat_when_no_later_window_is_larger_than_the_one_after_the_start() -> None:
    warm, flat = [10.0] * 200, [100.0] * 1_800
    base, largest = memory.flatness([*warm, *flat], "here")
    assert (base.median, largest.ratio, largest.verdict) == (100.0, 1.0, "met")
    assert base.what == "worker's memory after 200 episodes here"


def test_memory_that_grows_by_more_than_a_tenth_is_told() -> None:
    _, largest = memory.flatness([100 + number / 100 for number in range(2_000)], "here")
    assert largest.verdict == "missed"
    _, back = memory.flatness([*[100.0] * 1_000, *[150.0] * 100, *[100.0] * 900], "here")
    assert (back.median, back.verdict) == (150.0, "missed")


def test_few_episodes_are_cut_into_windows_of_one() -> None:
    assert memory.cut([1, 2, 3], 20) == [[1], [2], [3]]
    assert [len(part) for part in memory.cut(range(2_000), 20)] == [100] * 20
    assert memory.flatness([100.0], "here")[1].verdict == "too few"


def test_the_machine_is_told_without_its_name() -> None:
    told = machine()
    assert set(PACKAGES) <= told.keys()
    assert all(told.values())


def test_a_row_has_a_cell_for_each_column() -> None:
    measured = row_of(
        Figure(what="it", count=3, median=123.4, nine_tenths=0.01234, ratio=1.5, target=Target(most=4))
    )
    assert measured == ("it", "3", "123", "0.0123", "ms", "1.50x", "≤ 4", "met", "")
    skipped = row_of(Figure(what="it", skipped="no bwrap"))
    assert skipped == ("it", "", "", "", "", "", "", "skipped", "no bwrap")
    assert len(measured) == len(skipped) == len(COLUMNS)


@pytest.mark.parametrize("task", [with_commands(), without_sandbox()], ids=["commands", "calls"])
async def test_the_tasks_make_ten_calls_in_ten_turns_and_their_reference_solves_them(task: Task) -> None:
    engine = Engine(worlds(), MemoryWorlds())
    evidence = await rehearse(task, open_script("reference", task), engine)
    result = examine(task, evidence, engine.describe(task.world))
    assert (result.end, result.score.completion, result.counts.tool_calls) == (End.SUBMITTED, 1, CALLS)
    assert [len(turn.decision.calls) for turn in evidence.turns] == [1] * CALLS + [0]
