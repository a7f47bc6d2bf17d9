"""``tiltyard regrade``: stored facts, graded again by the graders of today. It starts nothing."""

from pathlib import Path

import click

from ops.cli.output import Output, json_option
from ops.cli.suites import suite, tasks_option


@click.command(short_help="Grade stored facts again, old and new side by side.")
@click.argument("names", metavar="[EPISODE]…", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every episode that has ended, but for replays.")
@click.option("--current-task", is_flag=True, help="By the contracts, rules and weights that the task has now.")
@tasks_option
@click.option("--fail-on-change", is_flag=True, help="Exit 1 when a fact of any of them moved.")
@click.pass_obj
@json_option
def regrade(
    home: Path | None,
    names: tuple[str, ...],
    every: bool,
    current_task: bool,
    place: Path | None,
    fail_on_change: bool,
    out: Output,
) -> int:
    """Grade the stored facts of each EPISODE again with the current graders: an id, or a glob of ids or of tasks
    such as 'replacement/reply-*'.

    Nothing is run again, no stack is needed, and no recorded outcome is changed: what was found then and what is
    found now are shown side by side, with the facts that moved. The task is the stored one; with --current-task, or
    --tasks, it is graded by what the task file says now.
    """
    import asyncio

    from ops.cli.regrades import grade_again
    from tiltyard.errors import BadInput
    from workers.settings import Settings

    if every == bool(names):
        what = "give either episodes or --all" if every else "name episodes, or give --all"
        raise BadInput(what, field="EPISODE", fix="`tiltyard episodes list` names those there are")
    now = suite(home, place) if current_task or place else None
    return asyncio.run(grade_again(Settings.from_environment(home), names, now, fail_on_change, out))
