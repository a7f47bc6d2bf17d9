"""``tiltyard tasks``: none of these commands starts anything."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ops.cli.called import typeable
from ops.cli.failures import BELOW, DONE, FAILED, WRONG_USE, told_input
from ops.cli.folded import prose, show_lines
from ops.cli.output import Output, json_option
from ops.cli.suites import kinds, suite, tasks_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ops.cli.pins import Checked
    from schemas.base import JsonObject
    from tiltyard.errors import BadTask
    from tiltyard.suite import Suite
    from tiltyard.suite.families import Family


@click.group()
def tasks() -> None:
    """List, show and check tasks. An id is WORLD/FAMILY/VARIANT."""


@tasks.command("list", short_help="List tasks: all, or those whose id matches a GLOB.")
@click.argument("globs", nargs=-1, metavar="[GLOB]…")
@tasks_option
@click.pass_obj
@json_option
def list_tasks(home: Path | None, globs: tuple[str, ...], place: Path | None, out: Output) -> int:
    """List tasks: all of them, or those whose id matches a GLOB such as 'replacement/reply-*'."""
    listed = suite(home, place)
    wanted = {task.id for task in listed.match(globs)} if globs else None
    found = [one for one in listed.listing() if wanted is None or one["id"] in wanted]
    out.value({"tasks": found})
    out.table(
        ("TASK", "REFERENCES", "INSTRUCTION"),
        [(str(one["id"]), _joined(one["references"]), _first_line(_told(one))) for one in found],
    )
    return DONE


def _joined(names: object) -> str:
    return ", ".join(map(str, names)) if isinstance(names, list) else ""


def _told(listed: "JsonObject") -> str:
    """A task's instruction, after what keeps it from counting like others."""
    mark = "" if listed["standing"] == "counted" else f"({listed['standing']}) "
    return f"{mark}{listed['instruction']}"


def _first_line(text: str, limit: int = 100) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


@tasks.command(short_help="Show one task in full.")
@click.argument("task_id", metavar="TASK")
@tasks_option
@click.pass_obj
@json_option
def show(home: Path | None, task_id: str, place: Path | None, out: Output) -> int:
    """Show one task in full: what the policy sees, and what it is graded by."""
    from ops.cli.written import written

    task = suite(home, place).task(task_id)
    out.value(task)
    out.show(written(task))
    return DONE


def _tasks_of(family: "Family") -> int:
    """How many tasks a file has, those with problems among them; none where that cannot be read."""
    from tiltyard.errors import BadTask

    try:
        return len(family.ids)
    except BadTask:
        return 0


@tasks.command(short_help="Check task files and play their references and pins.")
@click.argument("path", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--pin-again", is_flag=True, help="Pins that no longer hold are written anew, as they play now.")
@click.pass_obj
@json_option
def check(home: Path | None, path: Path | None, pin_again: bool, out: Output) -> int:
    """Check the task files in PATH (a folder, one world's folder, or one file); without it those that are
    shipped or imported. Pinned episodes beside them, or PATH itself, are played, and must come to what they did.

    Every problem of a task is printed with its field and the way to mend it; the exit code is then 2. A file that
    cannot be read hides what is in it; a task's bad vars hide the rest of it, and a task that is not well formed is
    not played. With a pin that no longer holds the exit code is 1, and 3 where one cannot be played here.
    """
    from ops.cli.pins import check_pins, pins_for, refuse_pin_again, show, told
    from tiltyard.suite import check_suite
    from workers.settings import Settings

    found = _suite_to_check(home, path)
    files = pins_for(Settings.from_environment(home), path, found)
    if pin_again:
        refuse_pin_again(files)
    problems = check_suite(found, kinds(home))
    checked = sum(map(_tasks_of, found.families.values()))
    pins = check_pins(home, files, pin_again)
    out.value(
        {
            "tasks": checked,
            "problems": [{"field": one.field, "message": one.message, "fix": one.fix} for one in problems],
            "pins": [told(one) for one in pins],
        }
    )
    for problem in problems:
        show_lines(out, prose(typeable(told_input(problem))))
    for pin in pins:
        show(pin, out)
    _show_sums(out, checked, len(problems), pins)
    return _code(problems, pins)


def _suite_to_check(home: Path | None, path: Path | None) -> "Suite":
    """The suite at a path; an empty one where there are pins and no tasks. Raises ``BadInput`` for neither."""
    from tiltyard.errors import BadInput
    from tiltyard.reopen.pin_files import is_pin, pins_at
    from tiltyard.suite import Suite

    if path is not None and is_pin(path):
        return Suite({})
    try:
        return suite(home, path)
    except BadInput:
        if path is None or not pins_at(path):
            raise
        return Suite({})


def _show_sums(out: Output, tasks: int, problems: int, pins: "Sequence[Checked]") -> None:
    from ops.cli.counting import counted

    broken = sum(one.broken for one in pins)
    marks = (
        (broken, "no longer holds" if broken == 1 else "no longer hold"),
        (sum(one.problem is not None for one in pins), "cannot be used"),
        (sum(one.unplayed for one in pins), "not played"),
    )
    marked = ", ".join(f"{number} {what}" for number, what in marks if number)
    held = f", {counted(len(pins), 'pin')}" if pins else ""
    held += f" ({marked})" if marked else ""
    out.show(f"{counted(tasks, 'task')}, {counted(problems, 'problem')}{held}")


def _code(problems: "Sequence[BadTask]", pins: "Sequence[Checked]") -> int:
    if problems or any(one.problem for one in pins):
        return WRONG_USE
    if any(one.wrong for one in pins):
        return BELOW
    return FAILED if any(one.unplayed for one in pins) else DONE
