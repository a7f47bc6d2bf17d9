"""State: the net changes after the drain equal one acceptable outcome and the declared side effects.

Expected changes and actual ones are paired one to one. What is expected and not found, and what is found and not
expected (collateral damage), each fails the contract.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemas.contract import ChangeKind, ExpectedChange, Outcome, StateContract
from schemas.world import LedgerRow, RowChange
from tiltyard.graders.pairing import pair
from tiltyard.graders.trial import Trial
from tiltyard.graders.values import brief, differing, fits, member

ANOTHER = ["another row"]
"""What keeps a change of another row from being the expected one; nothing else can be said of it."""


@dataclass(frozen=True)
class Fit:
    """How the changes of a trial fit an outcome. ``pairs`` says by its place which change was taken for which
    expected one; ``missing`` are those that the outcome demands and that were not found."""

    outcome: Outcome
    pairs: Mapping[int, ExpectedChange]
    missing: tuple[ExpectedChange, ...]


def check_state(contract: StateContract, trial: Trial) -> tuple[str, ...]:
    """Why no outcome fits; of several outcomes, the one that comes closest is told."""
    fit = closest_fit(contract, trial)
    return tuple(f"outcome {fit.outcome.name!r}: {miss}" for miss in _misses(fit, trial))


def closest_fit(contract: StateContract, trial: Trial) -> Fit:
    """How the trial's changes fit the outcome that comes closest; the first of several that come as close."""
    fits_of = (_fit(outcome, contract.side_effects, trial) for outcome in contract.outcomes)
    return min(fits_of, key=lambda fit: len(fit.missing) + len(trial.facts.changes) - len(fit.pairs))


def near_misses(fit: Fit, trial: Trial) -> tuple[Mapping[int, tuple[str, ...]], tuple[ExpectedChange, ...]]:
    """Which changes that fit nothing come near to a missing one, by their places with what keeps each from being
    it; and the missing ones that no change comes near to."""
    changes = trial.facts.changes
    near: dict[int, tuple[str, ...]] = {}
    never = []
    for one in fit.missing:
        left = [at for at in range(len(changes)) if at not in fit.pairs and at not in near]
        misfits = {at: _misfits(one, changes[at], trial) for at in left}
        close = [at for at in left if misfits[at] != ANOTHER]
        if close:
            nearest = min(close, key=lambda at, of=misfits: len(of[at]))  # type: ignore[misc]  # bound for the loop
            near[nearest] = tuple(misfits[nearest])
        else:
            never.append(one)
    return near, tuple(never)


def _fit(outcome: Outcome, side_effects: Sequence[ExpectedChange], trial: Trial) -> Fit:
    changes = trial.facts.changes
    required = list(_slots(outcome.changes, len(changes)))
    slots = required + list(_slots(side_effects, len(changes)))
    fitting = {
        id(expected): [index for index, change in enumerate(changes) if not _misfits(expected, change, trial)]
        for expected in slots
    }
    by_slot = {slot: fitting[id(expected)] for slot, expected in enumerate(slots)}
    paired = pair(by_slot, range(len(required)), range(len(changes)))
    return Fit(
        outcome,
        {index: slots[slot] for slot, index in paired.items()},
        tuple(one for slot, one in enumerate(required) if slot not in paired),
    )


def _misses(fit: Fit, trial: Trial) -> Iterator[str]:
    changes = trial.facts.changes
    yield from (_missing(one, changes, trial) for one in fit.missing)
    yield from (f"unexpected change: {_told(change)}" for at, change in enumerate(changes) if at not in fit.pairs)


def _slots(expected: Sequence[ExpectedChange], changes: int) -> Iterator[ExpectedChange]:
    """Room for one change each. More room than changes is of no use: a huge count costs nothing."""
    for one in expected:
        yield from [one] * min(one.count, changes + 1)


def kind_of(change: RowChange | LedgerRow) -> ChangeKind:
    """Created, updated or deleted."""
    if change.before is None:
        return "created"
    return "deleted" if change.after is None else "updated"


def _misfits(expected: ExpectedChange, change: RowChange, trial: Trial) -> list[str]:
    """What keeps a change from being the expected one; nothing when it is."""
    if expected.collection != change.collection or expected.key not in (None, change.key):
        return ANOTHER
    kind = kind_of(change)
    if kind != expected.change:
        return [f"was {kind}, not {expected.change}"]
    body = change.before if kind == "deleted" else change.after
    found = [
        f"{path} is {brief(member(body, path))}, not {brief(value)}"
        for path, value in expected.fields.items()
        if not fits(value, member(body, path), trial.operation_ids)
    ]
    if expected.after is not None:
        return found + [f"{path} differs" for path in differing(expected.after, body)]
    if kind == "updated":
        allowed = (*expected.fields, *expected.may_change)
        found += [
            f"{path} changed too" for path in differing(change.before, change.after) if not _within(path, allowed)
        ]
    return found


def _within(path: str, allowed: Sequence[str]) -> bool:
    return any(path == one or path.startswith(f"{one}.") for one in allowed)


def _missing(expected: ExpectedChange, changes: Sequence[RowChange], trial: Trial) -> str:
    """A sentence on an expected change that is not there, with the nearest one that is."""
    row = f"{expected.collection}/{expected.key or '*'}"
    near = [_misfits(expected, change, trial) for change in changes]
    close = min((misfit for misfit in near if misfit and misfit != ANOTHER), key=len, default=None)
    told = f"; the nearest change: {', '.join(close)}" if close else ""
    return f"{row} was not {expected.change} as expected{told}"


def _told(change: RowChange) -> str:
    row, kind = f"{change.collection}/{change.key}", kind_of(change)
    if kind == "updated":
        return f"{row} was updated in {', '.join(differing(change.before, change.after)) or 'nothing'}"
    return f"{row} was {kind}: {brief(change.after if kind == 'created' else change.before)}"
