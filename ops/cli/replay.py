"""``tiltyard replay``: the decisions of an episode again, in a fresh environment."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ops.cli.output import Output, json_option
from ops.cli.run import SANDBOXES
from ops.cli.suites import tasks_option
from ops.cli.typed import Whole

if TYPE_CHECKING:
    from schemas.sandbox import DriverName


@click.command(short_help="Make an episode's decisions again, and say where and why it first differs.")
@click.argument("episode_id", metavar="EPISODE")
@click.option(
    "--strict",
    is_flag=True,
    help="Mind any difference: besides what is compared without it, the digests of tools, template, graders and "
    "task, the grade with its facts and counts, and the drain report.",
)
@click.option(
    "--times", default=1, show_default=True, type=Whole(1, 10_000), help="Replays, to see if it is flaky."
)
@click.option(
    "--current-task",
    is_flag=True,
    help="Replay on the task of that id as it is now, instead of the one that the episode was planned with.",
)
@tasks_option
@click.option("--sandbox", type=click.Choice(SANDBOXES), help="Another driver.  [default: the episode's]")
@click.option("--jobs", default=4, show_default=True, type=Whole(1, 200), help="Replays at once.")
@click.pass_obj
@json_option
def replay(
    home: Path | None,
    episode_id: str,
    strict: bool,
    times: int,
    current_task: bool,
    place: Path | None,
    sandbox: "DriverName | None",
    jobs: int,
    out: Output,
) -> int:
    """Make the recorded decisions of EPISODE again in a fresh environment of the same task, template, faults and
    image, and compare what happens with what happened, turn by turn.

    Compared is what the trace digest covers, up to the recorded end: what calls showed, faults that fired, the
    clock, changes of the world, receipts, deferred jobs, graded files and the end. Recorded answers are given at
    once, and no wait takes real time. What could not be compared is said.

    Exit codes: 0 nothing differs, 1 something does, 2 wrong use or an episode that cannot be replayed, 3 the
    environment failed.
    """
    import asyncio

    from ops.cli.replays import Wanted, play_replays

    options = (
        *(("--strict",) if strict else ()),
        *(("--current-task",) if current_task else ()),
        *(("--tasks", str(place)) if place else ()),
        *(("--sandbox", sandbox) if sandbox else ()),
        *(("--json",) if out.json else ()),
    )
    wanted = Wanted(episode_id, strict, times, current_task or place is not None, place, sandbox, jobs, options)
    return asyncio.run(play_replays(home, wanted, out))
