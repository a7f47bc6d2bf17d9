"""Shrinking a failure: the fewest of an episode's decisions that still fail the same contract.

Delta debugging (Zeller, Hildebrandt: Simplifying and isolating failure-inducing input, 2002) over turns, then over
the calls in them. The result is 1-minimal: leave any one turn or call out, and the contract does not fail so any
more. It is the same for any number of runs at once.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from schemas.decision import Decision
from schemas.episode import EpisodeResult, Validity
from schemas.grade import ContractResult
from schemas.recording import Recording
from tiltyard.errors import BadInput

Piece = tuple[int, int]
"""(turn, call): the least that is left out. A question, or a turn of one call, is call 0."""

Pieces = tuple[Piece, ...]

Fails = Callable[[Pieces], Awaitable[bool]]
"""Whether the pieces that are kept, in their order, still fail so. Asked once for each choice of pieces."""


@dataclass(frozen=True)
class Shrunk:
    """``runs`` is how often it was asked. ``minimal``: nothing more can be left out; else ``runs`` came to its
    limit before that was known."""

    kept: Pieces
    runs: int
    minimal: bool


class _Enough(Exception):
    """No more runs are allowed."""


class _Trials:
    """Asks no more than ``most`` times, and never twice. ``jobs`` choices are tried at once; ``best`` is the last
    that failed."""

    def __init__(self, fails: Fails, jobs: int, most: int, best: Pieces) -> None:
        self._fails, self._most, self.jobs = fails, most, jobs
        self._known: dict[Pieces, bool] = {}
        self.runs, self.best = 0, best

    async def first(self, choices: Sequence[Pieces]) -> int | None:
        """The place of the first choice that fails, where one does."""
        unknown = [one for one in dict.fromkeys(choices) if one not in self._known]
        allowed = unknown[: max(0, self._most - self.runs)]
        self.runs += len(allowed)
        self._known.update(zip(allowed, await asyncio.gather(*map(self._fails, allowed)), strict=True))
        for place, one in enumerate(choices):
            if one not in self._known:
                raise _Enough
            if self._known[one]:
                self.best = one
                return place
        return None


async def shrink(pieces: Pieces, fails: Fails, *, jobs: int = 1, most_runs: int = 1000) -> Shrunk:
    """The pieces that a failure needs; all of them are known to fail."""
    trials = _Trials(fails, jobs, most_runs, pieces)
    try:
        while True:
            before = trials.best
            await _without_units(_turns(before), trials)
            await _without_units([(piece,) for piece in trials.best], trials)
            if trials.best == before:  # so no single one could be left out
                return Shrunk(before, trials.runs, minimal=True)
    except _Enough:
        return Shrunk(trials.best, trials.runs, minimal=False)


def _turns(pieces: Pieces) -> list[Pieces]:
    return [tuple(of_turn) for _, of_turn in groupby(pieces, key=lambda piece: piece[0])]


async def _without_units(units: list[Pieces], trials: _Trials) -> None:
    """Leave out ever smaller stretches of units, down to single ones."""
    size = len(units)
    while size:
        units = await _without_stretches(units, size, trials)
        size //= 2


async def _without_stretches(units: list[Pieces], size: int, trials: _Trials) -> list[Pieces]:
    """One pass, from the end: what comes later needs what comes earlier, and not the other way round."""
    end = len(units)
    while end > 0:
        ends = range(end, 0, -size)[: trials.jobs]
        choices = [units[: max(0, at - size)] + units[at:] for at in ends]
        found = await trials.first([_joined(choice) for choice in choices])
        end = max(0, ends[-1 if found is None else found] - size)
        units = units if found is None else choices[found]
    return units


def _joined(units: Iterable[Pieces]) -> Pieces:
    return tuple(piece for unit in units for piece in unit)


def pieces_of(recording: Recording) -> Pieces:
    """What may be left out of a recording: everything but the decision that ends it."""
    return tuple(
        (turn, call)
        for turn, decision in enumerate(recording.decisions)
        if not _ends(decision)
        for call in range(max(1, len(decision.calls)))
    )


def _ends(decision: Decision) -> bool:
    return decision.submit is not None or decision.give_up is not None


def recording_of_pieces(recording: Recording, kept: Pieces) -> Recording:
    """The recording with no more than these pieces and the decision that ends it."""
    calls: dict[int, list[int]] = {}
    for turn, call in kept:
        calls.setdefault(turn, []).append(call)
    answers = iter(recording.answers)
    decisions, answered = [], []
    for turn, decision in enumerate(recording.decisions):
        answer = next(answers, None) if decision.ask is not None else None
        if turn not in calls and not _ends(decision):
            continue
        decisions.append(_with_calls(decision, calls.get(turn, [])))
        answered += [answer] if decision.ask is not None else []
    return recording.model_copy(update={"decisions": tuple(decisions), "answers": tuple(answered)})


def _with_calls(decision: Decision, kept: Sequence[int]) -> Decision:
    """The decision with these of its calls; one without any stays as it is."""
    if len(kept) >= len(decision.calls):
        return decision
    return decision.model_copy(update={"calls": tuple(decision.calls[call] for call in kept)})


def failing_contract(result: EpisodeResult, name: str | None) -> ContractResult:
    """The contract whose failure is to be shrunk: the named one, else the first that failed.

    Raises ``BadInput`` where there is none, and for a trial that does not count.
    """
    failed = [one for one in result.contracts if not one.passed]
    names = ", ".join(one.name for one in failed)
    if result.validity is not Validity.VALID:
        why = f"it says nothing of its policy: {result.end}, {result.validity}: {result.reason}"
        raise BadInput(why, field=result.episode_id, fix="run its task again")
    if not failed:
        raise BadInput("no contract failed", field=result.episode_id, fix="only a failure can be shrunk")
    found = next((one for one in failed if name in (None, one.name)), None)
    if found is None:
        known = any(one.name == name for one in result.contracts)
        what = f"the contract {name} passed" if known else f"there is no contract {name}"
        raise BadInput(what, field="--contract", fix=f"failed: {names}")
    return found


PLACES = re.compile(r"turn \d+, call \d+(?:, request \d+)?")
MOMENTS = re.compile(r'("[a-z_]*_s"):\d+')
CUT = re.compile(r": [{\[].*…$", re.DOTALL)


def reasons(contract: ContractResult) -> tuple[str, ...]:
    """Why it failed, less where and when: that moves with what is left out."""
    return tuple(CUT.sub("", MOMENTS.sub(r"\1", PLACES.sub("a call", why))) for why in contract.why)


def fails_alike(result: EpisodeResult, wanted: ContractResult, *, any_reason: bool = False) -> bool:
    """Whether a valid trial fails this contract, for the same reasons unless any will do."""
    found = next((one for one in result.contracts if one.name == wanted.name), None)
    if result.validity is not Validity.VALID or found is None or found.passed:
        return False
    return any_reason or reasons(found) == reasons(wanted)
