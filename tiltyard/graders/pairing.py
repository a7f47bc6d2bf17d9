"""Pairing what was expected with what was found, one to one."""

from collections.abc import Mapping, Sequence

Edges = Mapping[int, Sequence[int]]


def pair(fitting: Edges, required: Sequence[int], found: Sequence[int]) -> dict[int, int]:
    """A matching, slot → found, that fills every required slot and uses everything found where both can be.

    ``fitting`` lists by slot what fits it. First as many required slots as possible are filled, then a slot is
    sought for everything that is left. An augmenting path never empties a slot nor drops a thing once it is
    matched, so both hold together whenever each can hold alone (Mendelsohn and Dulmage), in any order of rows.
    """
    found_of: dict[int, int] = {}
    slot_of: dict[int, int] = {}
    slots_for = {thing: [slot for slot, things in fitting.items() if thing in things] for thing in found}
    for slot in required:
        _augment(slot, fitting, found_of, slot_of)
    for thing in found:
        if thing not in slot_of:
            _augment(thing, slots_for, slot_of, found_of)
    return found_of


def _augment(start: int, edges: Edges, mine: dict[int, int], theirs: dict[int, int]) -> None:
    """Match ``start``, rematching others where need be (breadth first); nothing changes where it cannot be."""
    reached: dict[int, int] = {}
    queue = [start]
    for left in queue:
        for right in edges[left]:
            if right in reached:
                continue
            reached[right] = left
            if right not in theirs:
                _flip(right, reached, mine, theirs)
                return
            queue.append(theirs[right])


def _flip(right: int, reached: Mapping[int, int], mine: dict[int, int], theirs: dict[int, int]) -> None:
    end: int | None = right
    while end is not None:
        left = reached[end]
        freed = mine.get(left)
        mine[left], theirs[end] = end, left
        end = freed
