"""``tiltyard import``: public benchmarks as tasks. It starts nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ops.cli.failures import DONE
from ops.cli.output import Output, json_option

if TYPE_CHECKING:
    from schemas.imported import ImportedTask, ImportReport


@click.group("import")
def importing() -> None:
    """Import public benchmarks as tasks, into the data folder."""


@importing.command(short_help="Import the tasks of a τ²-bench domain.")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.pass_obj
@json_option
def tau2(home: Path | None, folder: Path, out: Output) -> int:
    """Import the tasks of a τ²-bench domain: DIR holds db.json, tasks.json and policy.md.

    Its tasks are then found by `run` and `tasks` as WORLD/tau2/ID. Importing again gives the same, in its place.
    """
    from infra.stores.imports import keep
    from tiltyard.importing.tau2 import import_tau2
    from tiltyard.worlds.registry import worlds
    from workers.settings import Settings

    settings = Settings.from_environment(home)
    imported = import_tau2(folder, worlds())
    path = keep(imported, settings.home, settings.templates, settings.suites)
    out.value(summary(imported.report, path))
    marked = [(task.id, mark, why) for task in imported.report.tasks for mark, why in marks(task)]
    if marked:
        out.table(("TASK", "MARK", "WHY"), marked)
    out.show(totals(imported.report))
    return DONE


def marks(task: "ImportedTask") -> Iterator[tuple[str, str]]:
    """What is known to be wrong with a task, and why."""
    for step in task.failing_steps:
        yield "failing_steps", f"step {step.step}, {step.tool}: {step.message}"
    if task.unscorable:
        yield "unscorable", task.unscorable
    elif task.idle_passes:
        yield "idle_passes", "nothing is to change or to be told; it is graded by the calls of its reference"
    elif task.no_call:
        yield "no_call", "its reference tells the facts without looking them up; P of such a trial is 0"


def totals(report: "ImportReport") -> str:
    """The import in a few lines."""
    from ops.cli.counting import counted

    ungraded = sum(task.ungraded > 0 for task in report.tasks)
    words = f"; {ungraded} also have nl_assertions, which are kept and not graded" if ungraded else ""
    tasks, stumble = counted(len(report.tasks), "task"), len(report.with_failing_steps)
    return (
        f"{tasks} imported as {report.family}/*, {stumble} of them with steps that fail in their own data\n"
        f"{report.counted} count, {len(report.idle_passes)} are counted apart (idle_passes), "
        f"{len(report.unscorable)} never (unscorable){words}"
    )


def summary(report: "ImportReport", path: Path) -> dict[str, Any]:
    """The import as one object."""
    return {
        "source": report.source,
        "family": report.family,
        "file": str(path),
        "template": report.template,
        "tasks": len(report.tasks),
        "counted": report.counted,
        "failing_steps": [{"task": task.id, "steps": task.failing_steps} for task in report.with_failing_steps],
        "idle_passes": [task.id for task in report.idle_passes],
        "no_call": [task.id for task in report.no_call],
        "unscorable": [{"task": task.id, "reason": task.unscorable} for task in report.unscorable],
        "ungraded": [task.id for task in report.tasks if task.ungraded],
    }
