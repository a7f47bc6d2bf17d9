"""Playing what ``tiltyard fork`` was asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.policies.source import resolve_policy
from ops.cli.called import command_line
from ops.cli.drivers import require_driver
from ops.cli.failures import DONE
from ops.cli.output import Output
from ops.cli.run import check_network, check_sandbox, check_script, verdict
from ops.cli.session import ground
from ops.cli.trials import begin, play_planned
from schemas.base import JsonValue
from schemas.episode import EpisodeSpec, PolicySpec
from schemas.sandbox import DriverName
from schemas.task import Task
from tiltyard.policies import catalogue
from tiltyard.reopen.changing import changed
from workers.ground import Ground
from workers.settings import Settings


@dataclass(frozen=True)
class Branches:
    """``repeat`` forks of ``parent`` before ``turn``, ``jobs`` at once. What is ``None`` is as it was there.

    ``options`` are those of the command line that hold for each, to ask for some of them again.
    """

    parent: str
    turn: int
    policy: str | None
    first_seed: int | None
    repeat: int
    instruction: str | None
    limits: Mapping[str, JsonValue]
    faults: Sequence[JsonValue] | None
    sandbox: DriverName | None
    jobs: int
    detach: bool
    options: Sequence[str]

    def again(self, specs: Sequence[EpisodeSpec]) -> list[str]:
        """The command that makes just these: forks that were not started are the last ones."""
        these = ("--turn", str(self.turn), "--seed", str(specs[0].seed), "--repeat", str(len(specs)))
        return [command_line("fork", self.parent, *these, *self.options)]


async def play_forks(home: Path | None, wanted: Branches, fail_under: float | None, out: Output) -> int:
    """Play and print; the exit code. Raises ``BadInput`` before anything is planned."""
    policy = None if wanted.policy is None else _resolved(home, wanted.policy)
    async with ground(home, out.note) as opened:
        before = await opened.task_of(wanted.parent)
        task = changed(before, instruction=wanted.instruction, limits=wanted.limits, faults=wanted.faults)
        _check(policy, wanted.sandbox, task)
        specs = await _planned(opened, wanted, None if task is before else task, policy)
        await require_driver(opened.settings, specs[0].sandbox, (task,))
        if wanted.detach:
            await begin(opened, specs, out)
            return DONE
        results = await play_planned(opened, specs, (task,), wanted.jobs, wanted.again, out)
    return verdict(results, (task,), fail_under, out)


def _resolved(home: Path | None, policy: str) -> PolicySpec:
    search_path = Settings.from_environment(home).search_path
    return resolve_policy(policy, str(Path.cwd()), catalogue.shipped, search_path)


def _check(policy: PolicySpec | None, sandbox: DriverName | None, task: Task) -> None:
    if policy is not None:
        check_script(policy, (task,))
    if sandbox is not None:
        check_sandbox(sandbox, (task,))
        check_network(sandbox, (task,))


async def _planned(
    opened: Ground, wanted: Branches, task: Task | None, policy: PolicySpec | None
) -> list[EpisodeSpec]:
    first = await opened.plan_fork(
        wanted.parent,
        wanted.turn,
        task=task,
        policy=policy,
        seed=wanted.first_seed,
        sandbox=wanted.sandbox,
    )
    return [first, *(opened.another(first, first.seed + more) for more in range(1, wanted.repeat))]
