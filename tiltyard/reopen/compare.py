"""The one comparison of two episodes: turn by turn, then what they left. It is of what the trace digest covers, so
episodes of one task without a difference have equal digests, except for what ``not_compared`` names."""

from collections.abc import Iterator
from itertools import zip_longest

from schemas.base import JsonObject
from schemas.replay import Difference
from tiltyard.graders.trial import Place
from tiltyard.reopen.left_behind import Side, not_compared, remains_differ, side_of
from tiltyard.trace import Trace

__all__ = ["first_difference", "not_compared"]


def first_difference(left: Trace, right: Trace) -> Difference | None:
    """The first difference, ``None`` where there is none.

    Of each turn in order: the decision, what each call was shown, the faults that fired, the clock, the changes of
    the world. Then receipts, deferred jobs, graded files and the end. What commands showed is compared after the
    normalisers of the left one's task, and of files those that it grades. A turn that was open at the end is left
    out on both sides.
    """
    sides = side_of(left, right, left.task), side_of(right, left, left.task)
    return next(_differences(*sides), None)


def _differences(left: Side, right: Side) -> Iterator[Difference]:
    """In their order; only the first one is sure to be one of its own."""
    changed = _changed(left, right)
    for number, (one, other) in enumerate(zip_longest(left.turns, right.turns)):
        if one is None or other is None:
            yield _ended_before(left, right, number)
            return
        if one != other:
            yield from _turn_differs(number, one, other, left, right)
        if changed is not None and changed.turn == number:
            yield changed
    if changed is not None:
        yield changed
    yield from remains_differ(left, right)
    if left.end != right.end:
        yield Difference(what="end", left=left.told_end, right=right.told_end)


def _ended_before(left: Side, right: Side, turn: int) -> Difference:
    """One of them has no such turn."""
    told = [side.turns[turn]["decision"] if turn < len(side.turns) else side.told_end for side in (left, right)]
    return Difference(turn=turn, what="end", left=told[0], right=told[1])


def _turn_differs(number: int, one: JsonObject, other: JsonObject, left: Side, right: Side) -> Iterator[Difference]:
    if one["decision"] != other["decision"]:
        yield Difference(turn=number, what="decision", left=one["decision"], right=other["decision"])
    for call, (shown, shown_too) in enumerate(
        zip_longest(_list(one["observations"]), _list(other["observations"]))
    ):
        if shown != shown_too:
            yield Difference(turn=number, call=call, what="observation", left=shown, right=shown_too)
    if one["faults"] != other["faults"]:
        call_too = _faulty_call(left, right, number)
        yield Difference(turn=number, call=call_too, what="fault", left=one["faults"], right=other["faults"])
    if one["now_s"] != other["now_s"]:
        yield Difference(turn=number, what="clock", left=one["now_s"], right=other["now_s"])


def _list(value: object) -> list[JsonObject]:
    return value if isinstance(value, list) else []


def _faulty_call(left: Side, right: Side, turn: int) -> int | None:
    """The first call of the turn that only one of them had a fault at, or another one."""
    places = sorted({place for side in (left, right) for place in side.faults if place[0] == turn and not place[2]})
    return next((place[1] for place in places if left.faults.get(place) != right.faults.get(place)), None)


def _changed(left: Side, right: Side) -> Difference | None:
    """The first change of the world that only one of them has at its place in the order."""
    for one, other in zip_longest(left.changes, right.changes):
        if one is None or other is None or one[1] != other[1]:
            turn, call = place = min(_where(one), _where(other), key=_order)
            told = [side[1] if side is not None and _where(side) == place else None for side in (one, other)]
            return Difference(turn=turn, call=call, what="change", left=told[0], right=told[1])
    return None


def _where(change: tuple[Place | None, JsonObject] | None) -> tuple[int | None, int | None]:
    return change[0][:2] if change is not None and change[0] is not None else (None, None)


def _order(where: tuple[int | None, int | None]) -> tuple[float, float]:
    """What is of no turn comes last."""
    return tuple(float("inf") if number is None else number for number in where)  # type: ignore[return-value]
