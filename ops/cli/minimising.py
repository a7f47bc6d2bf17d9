"""``tiltyard episodes minimise``: each choice of decisions is played as an episode of its own, on the stack."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ops.cli.called import command_line
from ops.cli.counting import counted
from ops.cli.drivers import require_driver
from ops.cli.folded import Line, show_lines
from ops.cli.output import Output
from ops.cli.pinning import keep, place_of, stem_of
from ops.cli.session import ground
from schemas.base import JsonObject
from schemas.decision import Decision
from schemas.episode import EpisodeResult, Origin
from schemas.grade import ContractResult
from schemas.recording import Recording
from tiltyard.errors import BadInput
from tiltyard.graders.values import brief
from tiltyard.reopen.kept import trace_of
from tiltyard.reopen.kept_turns import of_another
from tiltyard.reopen.minimising import (
    Pieces,
    Shrunk,
    failing_contract,
    fails_alike,
    pieces_of,
    recording_of_pieces,
    shrink,
)
from tiltyard.reopen.pinning import pin_of
from tiltyard.reopen.replaying import Original, Replaying
from workers.ground import Ground, new_episode_id

SHOWN = 240
"""Characters of a call's arguments that a line shows; with ``--json`` they are whole."""


@dataclass(frozen=True)
class Wish:
    """What is to be shrunk, and how. ``contract`` is by name; without one, the first that failed."""

    episode_id: str
    contract: str | None
    any_reason: bool
    jobs: int
    most_runs: int
    to: Path | None = None


class Trials:
    """Plays choices of an episode's decisions, and remembers the outcome of the last that failed alike."""

    def __init__(self, opened: Ground, original: Original, wanted: ContractResult, any_reason: bool) -> None:
        self._ground, self._original = opened, original
        self._wanted, self._any_reason = wanted, any_reason
        self._replaying = Replaying(opened.records, opened.objects)
        self.failed: dict[Pieces, EpisodeResult] = {}
        self.runs = self.spoilt = 0
        self.tell: Callable[[int, int], None] = lambda runs, fewest: None

    async def fails(self, kept: Pieces) -> bool:
        """Play these pieces as an episode. Whether the contract fails as it did."""
        chosen = replace(self._original, recording=recording_of_pieces(self._original.recording, kept))
        spec = await self._replaying.plan(chosen, new_episode_id())
        spec = spec.model_copy(update={"origin": Origin(kind="probe", episode_id=self._original.spec.episode_id)})
        await self._ground.submit([spec])
        result = await self._ground.result(spec.episode_id)
        self.runs += 1
        self.spoilt += result.validity.value != "valid"
        if alike := fails_alike(result, self._wanted, any_reason=self._any_reason):
            self.failed[kept] = result
        self.tell(self.runs, min(map(len, self.failed), default=0))
        return alike


@dataclass(frozen=True)
class Minimised:
    """What came of it: ``result`` is the outcome of the episode that plays no more than ``after``."""

    wanted: ContractResult
    before: Recording
    after: Recording
    found: Shrunk
    runs: int
    spoilt: int
    result: EpisodeResult

    @property
    def minimal(self) -> bool:
        """Whether nothing more can be left out: not known where runs were spoilt, or ended by their limit."""
        return self.found.minimal and not self.spoilt


async def minimise(home: Path | None, wish: Wish, out: Output) -> None:
    """Shrink and print. Raises ``BadInput`` for what is no failure, and for one that does not happen again."""
    async with ground(home, out.note) as opened:
        done = await _minimised(opened, wish, out)
        trace = await trace_of(done.result, opened.objects)
        file = place_of(opened.settings, done.result, wish.to, None) if wish.to is not None else None
    if file is not None:
        await keep(home, pin_of(done.result, trace, stem_of(file)), file, out)
    out.value(_told(done, file))
    show_lines(out, lines_of(done, file))


async def _minimised(opened: Ground, wish: Wish, out: Output) -> Minimised:
    original = await Replaying(opened.records, opened.objects).original(wish.episode_id)
    recording, every = original.recording, pieces_of(original.recording)
    wanted = failing_contract(original.played.result, wish.contract)
    await require_driver(opened.settings, original.spec.sandbox, (original.task,))
    trials = Trials(opened, original, wanted, wish.any_reason)
    with progress_of(out, trials, len(every)):
        await _require_again(trials, every, wish, await of_another(original.spec, opened.records))
        found = await shrink(every, trials.fails, jobs=wish.jobs, most_runs=wish.most_runs - 1)
    after = recording_of_pieces(recording, found.kept)
    return Minimised(wanted, recording, after, found, trials.runs, trials.spoilt, trials.failed[found.kept])


async def _require_again(trials: Trials, every: Pieces, wish: Wish, advice: str) -> None:
    """All decisions, played again, must fail alike before it means anything that fewer do."""
    if not await trials.fails(every):
        what = "played again, its decisions do not fail this contract so"
        fix = advice or f"`tiltyard replay {wish.episode_id}` says where it goes another way"
        raise BadInput(what, field=wish.episode_id, fix=fix)


@contextmanager
def progress_of(out: Output, trials: Trials, pieces: int) -> Iterator[None]:
    """How many runs, and how little is left: in place on a terminal, else a line whenever it has become less."""
    console = out.console(errors=True)
    if console.is_terminal:
        with console.status("playing it again") as status, out.notes_above(console):
            trials.tell = lambda runs, fewest: status.update(_left(runs, fewest, pieces))
            yield
        return
    told = [pieces]

    def tell(runs: int, fewest: int) -> None:
        if fewest < told[0] and trials.failed:
            told[0] = fewest
            out.note(_left(runs, fewest, pieces))

    trials.tell = tell
    yield


def _left(runs: int, fewest: int, pieces: int) -> str:
    return f"{counted(runs, 'run')}: {fewest} of {pieces} calls and questions left"


def lines_of(done: Minimised, pinned: Path | None) -> Iterator[Line]:
    """What came of it, for people."""
    still = next(one for one in done.result.contracts if one.name == done.wanted.name)
    minimal = (
        "no turn and no call can be left out" if done.found.minimal else "it was stopped: more may be left out"
    )
    yield Line(f"contract {still.name} still fails:")
    yield from (Line(why, 2) for why in still.why)
    yield Line(f"{_size(done.before)} shrunk to {_size(done.after)} in {counted(done.runs, 'run')}; {minimal}")
    for turn, one in enumerate(done.after.decisions):
        yield from (Line(line, 2, mark=f"turn {turn}  ") for line in told_decision(one))
    if done.spoilt:
        yield Line(f"{counted(done.spoilt, 'run')} did not count, and passed for not failing")
    if pinned is None:
        yield Line(f"to keep it: {command_line('episodes', 'pin', done.result.episode_id)}")


def _told(done: Minimised, pinned: Path | None) -> JsonObject:
    before, after = done.before, done.after
    return {
        "episode_id": done.result.episode_id,
        "of": done.result.origin.episode_id if done.result.origin else "",
        "contract": done.wanted.name,
        "turns": {"before": len(before.decisions), "after": len(after.decisions)},
        "calls": {"before": _calls(before), "after": _calls(after)},
        "runs": done.runs,
        "spoilt": done.spoilt,
        "minimal": done.minimal,
        "decisions": [one.model_dump(mode="json", exclude_defaults=True) for one in after.decisions],
        "pinned": None if pinned is None else str(pinned),
    }


def _size(recording: Recording) -> str:
    return f"{counted(len(recording.decisions), 'turn')} with {counted(_calls(recording), 'call')}"


def _calls(recording: Recording) -> int:
    return sum(len(decision.calls) for decision in recording.decisions)


def told_decision(decision: Decision) -> Iterator[str]:
    """A decision in a line for each call."""
    for call in decision.calls:
        yield f"{call.tool} {brief(call.arguments, SHOWN)}"
    for word, value in (("ask", decision.ask), ("submit", decision.submit), ("give up", decision.give_up)):
        if value is not None:
            yield f"{word} {brief(value, SHOWN)}"
