"""Episodes a second on a whole stack, with a sandbox and without, and where their time goes."""

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import psutil

from infra.local.stack import Say
from ops.bench.figures import Figure, Target
from ops.bench.stack import AT_ONCE, Stack, stack
from ops.bench.tasks import CALLS, with_commands, without_sandbox
from schemas.episode import EpisodeResult
from schemas.sandbox import DriverName
from schemas.task import Task
from tiltyard.errors import EnvironmentFailed
from workers.ground import DEFAULT_DRIVER

EPISODES = 160
AT_LEAST = Target(least=12, judged_from=EPISODES)

PARTS = 4
"""Both kinds of episodes are run in turn, in so many parts each, so that noise hits both."""

BENCH = "this command"

PHASES = ("lease", "provision", "turns", "close", "grade")
"""Of an episode's timings, in their order (docs/benchmarks.md)."""


@dataclass
class Run:
    """Episodes of one task in several parts."""

    task: Task
    driver: DriverName = DEFAULT_DRIVER
    rates: list[float] = field(default_factory=list)
    results: list[EpisodeResult] = field(default_factory=list)
    cpu_s: list[Mapping[str, float]] = field(default_factory=list)
    """Processor seconds of an episode by process, as the mean of each part."""

    async def part(self, ours: Stack, episodes: int) -> None:
        """Run so many more."""
        before, began = _cpu_s(ours), time.perf_counter()
        results = await ours.episodes(self.task, episodes, driver=self.driver)
        self.rates.append(len(results) / (time.perf_counter() - began))
        self.cpu_s.append({name: (spent - before[name]) / episodes for name, spent in _cpu_s(ours).items()})
        wrong = [result for result in results if result.score.completion < 1]
        if wrong:
            raise EnvironmentFailed(f"{wrong[0].episode_id} ended {wrong[0].end}: {wrong[0].reason}")
        self.results += results


async def measure(most: int, say: Say) -> list[Figure]:
    """``AT_ONCE`` episodes of ten short turns at once, in four processes and Temporal, as `tiltyard run` has it."""
    episodes = max(1, min(EPISODES, most) // PARTS)
    async with stack(say) as ours:
        why_not = await ours.unavailable("bubblewrap")
        runs = {f"{CALLS} calls of the world": Run(without_sandbox())}
        if not why_not:
            runs = {f"a sandbox and {CALLS} commands": Run(with_commands()), **runs}
        await take_turns(ours, runs.values(), episodes, say)
    figures = [figure for what, run in runs.items() for figure in told(what, run, AT_LEAST)]
    skipped = Figure(what=f"episodes with a sandbox and {CALLS} commands", unit="/s", skipped=why_not)
    return [*figures, *([skipped] if why_not else [])]


async def take_turns(ours: Stack, runs: Collection[Run], episodes: int, say: Say) -> None:
    """Run ``PARTS`` parts of so many episodes of each kind."""
    for run in runs:  # templates, stage and connections are there afterwards
        await ours.episodes(run.task, min(AT_ONCE, episodes), driver=run.driver)
    for number in range(PARTS):
        say(f"part {number + 1} of {PARTS}: {episodes} episodes of each kind")
        for run in runs:
            await run.part(ours, episodes)


def told(what: str, run: Run, target: Target | None) -> list[Figure]:
    """The rate, which ``target`` is for where there are sandboxes, and what an episode spends its time on."""
    rate = Figure.of(
        f"episodes with {what}, {AT_ONCE} at once",
        run.rates,
        scale=1,
        unit="/s",
        episodes=len(run.results),
        more_is_better=True,
    )
    if run.task.sandbox is not None:
        rate = rate.model_copy(update={"target": target})
    return [rate, *_phases(run.results), *processes(run.cpu_s, len(run.results))]


def _phases(results: Sequence[EpisodeResult]) -> list[Figure]:
    phases: defaultdict[str, list[float]] = defaultdict(list)
    for result in results:
        for phase, seconds in result.timings.items():
            phases[phase].append(seconds)
    return [Figure.of(f"  phase {phase}", phases[phase]) for phase in PHASES if phase in phases]


def processes(parts: Sequence[Mapping[str, float]], episodes: int) -> list[Figure]:
    """Processor time of an episode: of each part the mean, for nobody sees it of one episode alone."""
    whole = [{**part, "all": sum(part.values())} for part in parts]
    return [
        Figure.of(f"  processor time of an episode, {name}", [part[name] for part in whole], episodes=episodes)
        for name in whole[0]
    ]


def _cpu_s(ours: Stack) -> dict[str, float]:
    """Processor seconds so far of each process, with what it has started and waited for."""
    processes = {one.name: psutil.Process(one.process.pid) for one in ours.processes() if one.process}
    return {name: _spent_s(process) for name, process in {**processes, BENCH: psutil.Process()}.items()}


def _spent_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)
