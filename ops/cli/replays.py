"""Playing what ``tiltyard replay`` was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ops.cli.batch import Batch
from ops.cli.called import command_line
from ops.cli.drivers import require_driver
from ops.cli.failures import BELOW, DONE, FAILED
from ops.cli.leaving import play_until_left
from ops.cli.output import Output
from ops.cli.progress import progress
from ops.cli.results import show_results
from ops.cli.run import check_network, check_sandbox
from ops.cli.session import ground
from ops.cli.suites import kinds, suite
from ops.cli.verdicts_shown import show_tally, show_verdict
from schemas.episode import EpisodeResult, EpisodeSpec
from schemas.replay import Verdict
from schemas.sandbox import DriverName
from schemas.task import Task
from tiltyard.errors import EnvironmentFailed, InputMissing
from tiltyard.reopen.replaying import Original, Replaying
from tiltyard.reopen.tallies import tally_of
from tiltyard.reopen.verdicts import missing
from tiltyard.suite import check_in
from workers.ground import Ground, new_episode_id


@dataclass(frozen=True)
class Wanted:
    """``times`` replays of ``episode``, ``jobs`` at once. ``current_task`` takes the task as it is now, in the
    suite at ``place``. ``sandbox`` is another driver than the episode's.

    ``options`` are those of the command line that hold for each, to ask for some of them again.
    """

    episode: str
    strict: bool
    times: int
    current_task: bool
    place: Path | None
    sandbox: DriverName | None
    jobs: int
    options: Sequence[str]

    def again(self, specs: Sequence[EpisodeSpec]) -> list[str]:
        return [command_line("replay", self.episode, "--times", str(len(specs)), *self.options)]


async def play_replays(home: Path | None, wanted: Wanted, out: Output) -> int:
    """Play and print; the exit code. Raises ``BadInput`` before anything is planned."""
    async with ground(home, out.note) as opened:
        replaying = Replaying(opened.records, opened.objects)
        try:
            original = await replaying.original(wanted.episode)
        except InputMissing as error:
            return _told([missing(wanted.episode, error.what, error.why)], [], wanted, out)
        specs = await _planned(home, wanted, replaying, original)
        await require_driver(opened.settings, specs[0].sandbox, (original.task,))
        results = await _played(opened, specs, original, wanted, out)
        verdicts: list[Verdict] = []
        failures: list[str] = []
        for result in results:
            try:
                verdicts.append(await replaying.verdict(original, result, strict=wanted.strict))
            except (EnvironmentFailed, InputMissing) as error:
                failures.append(str(error))
    return _told(verdicts, failures, wanted, out)


async def _planned(
    home: Path | None, wanted: Wanted, replaying: Replaying, original: Original
) -> list[EpisodeSpec]:
    task = _task_now(home, wanted, original) if wanted.current_task else None
    if wanted.sandbox is not None:
        check_sandbox(wanted.sandbox, (task or original.task,))
        check_network(wanted.sandbox, (task or original.task,))
    replays = [new_episode_id() for _ in range(wanted.times)]
    return await replaying.plan_all(original, replays, task=task, sandbox=wanted.sandbox)


def _task_now(home: Path | None, wanted: Wanted, original: Original) -> Task:
    """Raises ``BadInput`` where the suite has it no more, and ``BadTask`` for one that does not fit its world."""
    task = suite(home, wanted.place).task(original.spec.task_id)
    for problem in check_in(task, kinds(home)):
        raise problem
    return task


async def _played(
    opened: Ground, specs: Sequence[EpisodeSpec], original: Original, wanted: Wanted, out: Output
) -> tuple[EpisodeResult, ...]:
    """Their outcomes are no answer of this command: what they are compared to is."""

    def tell_done(results: Sequence[EpisodeResult]) -> None:
        show_results(out, results, (original.task,))

    with progress(out, len(specs)) as shown:
        batch = Batch(opened, out, shown, tell=lambda result: None)
        return await play_until_left(batch, specs, wanted.jobs, tell_done, wanted.again)


def _told(verdicts: Sequence[Verdict], failures: Sequence[str], wanted: Wanted, out: Output) -> int:
    for one in verdicts:
        out.value(one)
    diverged = [one for one in verdicts if one.diverged]
    if wanted.times > 1 and any(one.replay for one in verdicts):
        tally = tally_of(wanted.episode, verdicts, len(failures))
        out.value(tally)
        show_tally(out, tally, verdicts)
    for one in diverged[:1] if diverged else verdicts[:1] if wanted.times == 1 else ():
        show_verdict(out, one, strict=wanted.strict)
    for failure in failures:
        out.note(f"error: {failure}")
    return FAILED if failures else BELOW if diverged else DONE
