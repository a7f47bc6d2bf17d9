"""``tiltyard fork``: go on from a turn of an episode with something else."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ops.cli.output import Output, json_option
from ops.cli.run import SANDBOXES
from ops.cli.typed import Share, Whole, at_most_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.base import JsonValue
    from schemas.sandbox import DriverName

NO_FAULTS = "none"


class Limit(click.ParamType[tuple[str, int]]):
    """``NAME=NUMBER``."""

    name = "NAME=NUMBER"

    def convert(
        self, value: str | tuple[str, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, _, number = value.partition("=")
        if not name or not number.isdecimal():
            self.fail(f"{value!r} is not NAME=NUMBER, such as turns=60.", param, ctx)
        return name, int(number)


@click.command()
@click.argument("episode_id", metavar="EPISODE")
@click.option("--turn", required=True, type=Whole(0), help="The first turn to decide anew; those before it stay.")
@click.option(
    "--policy",
    multiple=True,
    callback=at_most_one,
    metavar="P",
    help="Another policy: a shipped one's name, module:object, or 'exec:COMMAND'.  [default: the episode's]",
)
@click.option("--seed", type=Whole(0), help="Another seed.  [default: the episode's]")
@click.option("--repeat", default=1, show_default=True, type=Whole(1, 10_000), help="Forks, at seeds N, N+1, …")
@click.option("--instruction", metavar="TEXT", help="Another instruction from here on.")
@click.option("--limit", "limits", multiple=True, type=Limit(), help="Another limit of the task, such as turns=60.")
@click.option("--faults", metavar="FILE", help=f"Another fault plan: a YAML file with faults:, or {NO_FAULTS}.")
@click.option("--sandbox", type=click.Choice(SANDBOXES), help="Another driver.  [default: the episode's]")
@click.option("--jobs", default=4, show_default=True, type=Whole(1, 200), help="Episodes at once.")
@click.option("--detach", is_flag=True, help="Start the episodes, print their ids and do not wait.")
@click.option("--fail-under", metavar="X", type=Share(), help="Exit 1 when the mean score is below X.")
@click.pass_obj
@json_option
def fork(
    home: Path | None,
    episode_id: str,
    turn: int,
    policy: str | None,
    seed: int | None,
    repeat: int,
    instruction: str | None,
    limits: tuple[tuple[str, int], ...],
    faults: str | None,
    sandbox: "DriverName | None",
    jobs: int,
    detach: bool,
    fail_under: float | None,
    out: Output,
) -> int:
    """Go on from the state that EPISODE had before a turn, with the same policy or another one.

    The conversation, the world, its clock and pending jobs, receipts and the sandbox's files are those of that
    moment; processes are not, and the result says which are missing. EPISODE may be running, or a fork itself, and
    is left as it is. Budgets count the turns and calls that are taken over; the wall time begins anew.
    """
    import asyncio

    from ops.cli.branches import Branches, play_forks

    options = {"--policy": policy, "--instruction": instruction, "--faults": faults, "--sandbox": sandbox}
    wanted = Branches(
        parent=episode_id,
        turn=turn,
        policy=policy,
        first_seed=seed,
        repeat=repeat,
        instruction=instruction,
        limits=dict(limits),
        faults=None if faults is None else _plan(faults),
        sandbox=sandbox,
        jobs=jobs,
        detach=detach,
        options=(
            *(word for name, value in options.items() if value is not None for word in (name, value)),
            *(word for name, number in limits for word in ("--limit", f"{name}={number}")),
            *(("--json",) if out.json else ()),
        ),
    )
    return asyncio.run(play_forks(home, wanted, fail_under, out))


def _plan(faults: str) -> "Sequence[JsonValue]":
    """The fault plan in a file. Raises ``BadInput`` naming it."""
    from tiltyard.errors import BadInput
    from tiltyard.suite.reading import Advice, read_yaml

    if faults == NO_FAULTS:
        return ()
    fix = "write faults: and a list, as in a task file"
    found = read_yaml(Path(faults), faults, Advice(mapping=fix, smaller="leave out all but the faults"))
    plan = found.get("faults")
    if not isinstance(plan, list) or len(found) != 1:
        raise BadInput("holds no fault plan", field=faults, fix=fix)
    return plan
