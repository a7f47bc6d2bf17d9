"""Playing what ``tiltyard run`` was asked for."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ops.cli.batch import Batch
from ops.cli.called import command_line
from ops.cli.drivers import require_driver
from ops.cli.leaving import Again, play_until_left
from ops.cli.made_from import Made, made_from
from ops.cli.output import Output
from ops.cli.progress import progress
from ops.cli.results import NOT_MADE, show_results
from ops.cli.session import ground
from schemas.episode import EpisodeResult, EpisodeSpec, PolicySpec
from schemas.sandbox import DriverName
from schemas.task import Task
from tiltyard.errors import TiltyardError
from tiltyard.reopen.kept import trace_of
from workers.ground import DEFAULT_DRIVER, Ground


@dataclass(frozen=True)
class Order:
    """What to play: every task at every seed, ``jobs`` at once. ``detach`` does not wait for the ends.

    ``sandbox`` makes the sandboxes of tasks that need one. ``options`` are those of the command line that hold for
    each trial, to ask for some of them again.
    """

    tasks: Sequence[Task]
    policy: PolicySpec
    seeds: Sequence[int]
    jobs: int
    detach: bool = False
    options: Sequence[str] = ()
    sandbox: DriverName = DEFAULT_DRIVER

    def again(self, specs: Sequence[EpisodeSpec]) -> list[str]:
        """The commands that run just these trials: tasks with the same seeds share one."""
        seeds: dict[str, list[int]] = {}
        for spec in specs:
            seeds.setdefault(spec.task_id, []).append(spec.seed)
        alike: dict[tuple[int, int], list[str]] = {}
        for task, its in seeds.items():
            alike.setdefault((its[0], len(its)), []).append(task)
        return [
            command_line("run", *tasks, *self.options, "--seed", str(first), "--repeat", str(trials))
            for (first, trials), tasks in alike.items()
        ]


async def play(home: Path | None, order: Order, out: Output) -> tuple[EpisodeResult, ...]:
    """Play and print. Raises ``KeyboardInterrupt`` when Ctrl-C ended it early, and ``SandboxUnavailable``, with
    nothing planned, where no sandbox can be made for them."""
    async with ground(home, out.note) as opened:
        await require_driver(opened.settings, order.sandbox, order.tasks)
        specs = [
            await opened.plan(task, order.policy, seed, order.sandbox)
            for task, seed in itertools.product(order.tasks, order.seeds)
        ]
        if order.detach:
            await begin(opened, specs, out)
            return ()
        return await play_planned(opened, specs, order.tasks, order.jobs, order.again, out)


async def begin(opened: Ground, specs: Sequence[EpisodeSpec], out: Output) -> None:
    """Start planned trials, and say which."""
    await opened.submit(specs)
    _say_started(specs, out)


async def play_planned(
    opened: Ground, specs: Sequence[EpisodeSpec], tasks: Sequence[Task], jobs: int, again: Again, out: Output
) -> tuple[EpisodeResult, ...]:
    """Play planned trials of these tasks and print what came of them. If they are forks, all are of one episode."""
    tell = partial(show_results, out, tasks=tasks)
    with progress(out, len(specs)) as shown:
        results = await play_until_left(Batch(opened, out, shown), specs, jobs, tell, again)
    tell(results, made=await _made(opened, specs[0], results[0]))
    return results


async def _made(opened: Ground, spec: EpisodeSpec, result: EpisodeResult) -> Made:
    """How the first trial departs from what it was made from; not told where its facts cannot be read."""
    if spec.origin is None or not result.trace:
        return NOT_MADE
    try:
        trace = await trace_of(result, opened.objects)
        return await made_from(spec, trace.task, opened.records, opened.objects, trace)
    except TiltyardError:
        return NOT_MADE


def _say_started(specs: Sequence[EpisodeSpec], out: Output) -> None:
    for spec in specs:
        out.value(
            {"episode_id": spec.episode_id, "task": spec.task_id, "policy": spec.policy.target, "seed": spec.seed}
        )
        out.show(f"{spec.episode_id}  {spec.task_id}  seed {spec.seed}")
    follow = command_line("episodes", "watch", specs[0].episode_id)
    out.note(f"started {len(specs)}; to follow one: {follow}")
