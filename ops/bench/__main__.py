"""``make bench`` and ``make bench-docker``: measure what Tiltyard costs, and print it beside the targets."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any

import click

from infra.local.stack import Say
from ops.bench.figures import Figure, Report
from ops.bench.machine import machine
from ops.cli.failures import DONE, report
from ops.cli.output import Output

Subject = Callable[[int, Say], Coroutine[Any, Any, list[Figure]]]

SUBJECTS = {
    "temporal": "ops.bench.temporal",
    "exec": "ops.bench.commands",
    "namespace": "ops.bench.namespaces",
    "past": "ops.bench.pasts",
    "throughput": "ops.bench.throughput",
    "forks": "ops.bench.forks",
    "replays": "ops.bench.replays",
    "memory": "ops.bench.memory",
}
"""Each subject with the module whose ``measure`` it is."""

ON_REQUEST = {
    "docker": "ops.bench.containers",
    "docker-episodes": "ops.bench.container_episodes",
}
"""Subjects that are measured when they are asked for: they need an engine, and an image that takes a while."""

ALL = {**SUBJECTS, **ON_REQUEST}

COLUMNS = ("figure", "#n", "#median", "#90 %", "", "#ratio", "target", "", "note")
MOST = 2_000


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(ALL)), help="Measure this subject; repeatable.")
@click.option(
    "--episodes", default=MOST, type=click.IntRange(1, 1_000_000), help=f"At most so many of anything ({MOST})."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object a line: the machine, then each subject."
)
def bench(only: tuple[str, ...], episodes: int, as_json: bool) -> int:
    """Measure what Tiltyard costs, as medians and as ratios against the bare thing, in this one run.

    Everything happens in temporary data folders, and nothing is left running.
    """
    out = Output(as_json)
    told = machine()
    out.value({"machine": told})
    out.table(("machine", ""), list(told.items()))
    for subject in only or SUBJECTS:
        measure: Subject = import_module(ALL[subject]).measure
        out.note(f"{subject} …")
        figures = asyncio.run(measure(episodes, lambda text: out.note(f"  {text}")))
        out.value(Report(subject=subject, figures=tuple(figures)))
        out.show("")
        out.table((subject, *COLUMNS[1:]), [row_of(figure) for figure in figures])
    return DONE


def row_of(figure: Figure) -> tuple[str, ...]:
    """The figure's line in the table."""
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}x"
    return (
        figure.what,
        str(figure.count or ""),
        _number(figure.median),
        _number(figure.nine_tenths),
        figure.unit if figure.median is not None else "",
        ratio,
        str(figure.target or ""),
        figure.verdict,
        "; ".join(filter(None, (figure.skipped, _needed(figure), figure.note))),
    )


def _needed(figure: Figure) -> str:
    return f"judged from {figure.target.judged_from:,}" if figure.target and figure.verdict == "too few" else ""


def _number(value: float | None) -> str:
    """Three digits, which is more than such measurements are worth."""
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def main(arguments: list[str]) -> int:
    """Run one command line; its exit code."""
    try:
        return int(bench.main(arguments, prog_name="bench", standalone_mode=False) or DONE)
    except BaseException as error:  # rendered in one place, as the program's are
        return report(error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
