"""``tiltyard run``: trials of tasks by a policy."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ops.cli.failures import BELOW, DONE, FAILED
from ops.cli.output import Output, json_option
from ops.cli.suites import kinds, suite, tasks_option
from ops.cli.typed import Share, Whole, only_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.episode import EpisodeResult, PolicySpec
    from schemas.sandbox import DriverName
    from schemas.task import Task

SANDBOXES = ("bubblewrap", "docker", "unsafe-local")


@click.command()
@click.argument("tasks", nargs=-1, required=True, metavar="TASK…")
@tasks_option
@click.option(
    "--policy",
    required=True,
    multiple=True,
    callback=only_one,
    metavar="P",
    help="A shipped policy's name, module:object, or 'exec:COMMAND'; the last two run in the current folder.",
)
@click.option("--seed", default=0, show_default=True, type=Whole(0), help="Seed of the first trial.")
@click.option(
    "--repeat",
    default=1,
    show_default=True,
    type=Whole(1, 10_000),
    help="Trials of each task, at seeds N, N+1, …",
)
@click.option("--jobs", default=4, show_default=True, type=Whole(1, 200), help="Episodes at once.")
@click.option(
    "--sandbox",
    type=click.Choice(SANDBOXES),
    default=SANDBOXES[0],
    show_default=True,
    help="What isolates commands of tasks that have some; docker needs an engine, unsafe-local isolates nothing.",
)
@click.option("--detach", is_flag=True, help="Start the episodes, print their ids and do not wait.")
@click.option(
    "--fail-under",
    metavar="X",
    type=Share(),
    help="Exit 1 when the mean score of all trials that count is below X.",
)
@click.pass_obj
@json_option
def run(
    home: Path | None,
    tasks: tuple[str, ...],
    place: Path | None,
    policy: str,
    seed: int,
    repeat: int,
    jobs: int,
    sandbox: "DriverName",
    detach: bool,
    fail_under: float | None,
    out: Output,
) -> int:
    """Run each TASK (an id or a glob such as 'replacement/reply-*') with a policy and print the graded results.

    Ctrl-C once pauses the running episodes at their turn boundary and prints how to go on; twice detaches, and
    they go on by themselves. Trials that were not started are counted, with the command that runs them. With
    --json, one object for each episode is printed as it ends.

    C, P and E are completion, process and efficiency, the parts of the score; RISK is what is worth a look, such as
    tests that were deleted. `tiltyard episodes show` tells the reasons.
    """
    import asyncio

    from infra.policies.source import resolve_policy
    from ops.cli.trials import Order, play
    from tiltyard.policies import catalogue
    from workers.settings import Settings

    chosen = suite(home, place).match(tasks)
    if place:
        _check(home, chosen)
    found = resolve_policy(policy, str(Path.cwd()), catalogue.shipped, Settings.from_environment(home).search_path)
    check_script(found, chosen)
    check_sandbox(sandbox, chosen)
    check_network(sandbox, chosen)
    options = (
        *(("--tasks", str(place)) if place else ()),
        "--policy",
        policy,
        "--jobs",
        str(jobs),
        *(("--sandbox", sandbox) if sandbox != SANDBOXES[0] else ()),
        *(("--json",) if out.json else ()),
    )
    order = Order(chosen, found, tuple(range(seed, seed + repeat)), jobs, detach, options, sandbox)
    return verdict(asyncio.run(play(home, order, out)), chosen, fail_under, out)


def _check(home: Path | None, chosen: "Sequence[Task]") -> None:
    """Tasks of one's own fit their worlds; the others are known to. Raises the first ``BadTask``."""
    from tiltyard.suite import check_in

    for task in chosen:
        for problem in check_in(task, kinds(home)):
            raise problem


def check_script(policy: "PolicySpec", chosen: "Sequence[Task]") -> None:
    """A shipped script can play every task. Raises ``BadPolicy``: not every task has every reference."""
    from tiltyard.errors import BadPolicy
    from tiltyard.policies.catalogue import open_script

    if policy.directory:  # of one's own
        return
    try:
        for task in chosen:
            open_script(policy.target, task)
    except BadPolicy as error:
        raise BadPolicy(error.message, field="--policy", fix=error.fix) from None


def check_sandbox(sandbox: "DriverName", chosen: "Sequence[Task]") -> None:
    """What isolates nothing is refused for a task with hidden tests (I9). Raises ``BadInput`` naming one."""
    from tiltyard.errors import BadInput

    hiding = [task.id for task in chosen if task.hides_tests]
    if sandbox == "unsafe-local" and hiding:
        raise BadInput(
            f"isolates nothing, and {hiding[0]} is graded by hidden tests that its policy could read",
            field="--sandbox unsafe-local",
            fix=(
                "leave it out: `tiltyard doctor` says what bubblewrap needs; where that cannot run, unsafe-local "
                "is for tasks of your own without a tests contract, see docs/sandboxes.md, Drivers"
            ),
        )


def check_network(sandbox: "DriverName", chosen: "Sequence[Task]") -> None:
    """A world is served in a network of the sandbox's own. Raises ``BadInput`` naming a task that does that."""
    from tiltyard.errors import BadInput

    serving = [task.id for task in chosen if task.sandbox is not None and task.sandbox.exposes]
    if sandbox == "unsafe-local" and serving:
        raise BadInput(
            f"has no network of its own, and {serving[0]} serves its world in one",
            field="--sandbox unsafe-local",
            fix="use bubblewrap or docker",
        )


def verdict(
    results: "Sequence[EpisodeResult]", tasks: "Sequence[Task]", fail_under: float | None, out: Output
) -> int:
    """The exit code. Trials that the environment spoilt stay in the denominator, and are a failure of their own."""
    from ops.cli.counting import JUDGED, counted, means

    spoilt = [one for one in results if one.validity.value != "valid"]
    if spoilt:
        those = f"{len(spoilt)} of {counted(len(results), 'trial')}"
        out.note(f"not valid: {those}: {spoilt[0].validity}, {spoilt[0].reason}")
        return FAILED
    if fail_under is None:
        return DONE
    found = means(results, tasks)
    below = [found[name][1] for name in JUDGED if name in found and found[name][1] < fail_under]
    for mean in below:
        out.note(f"mean score {mean:.3f} is below {fail_under:g}")
    return BELOW if below else DONE
