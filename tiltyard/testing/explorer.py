"""Explicit-state exploration: every state that any order of moves can reach, breadth first.

So the first counterexample found is a shortest one.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

StateT = TypeVar("StateT", bound=Hashable)

Moves = Callable[[StateT], Iterable[tuple[str, StateT]]]
"""The moves from a state: what each is called, and where it leads."""

Check = Callable[[StateT], str]
"""What is wrong with a state; empty when nothing is."""


@dataclass(frozen=True)
class Exploration(Generic[StateT]):
    """How many states and moves there were; ``wrong`` and the ``path`` to it when exploring ended early."""

    states: int
    moves: int
    final: int
    wrong: str = ""
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        seen = f"{self.states:,} states, {self.moves:,} moves, {self.final:,} final states"
        return f"{seen}; {self.wrong}: {' → '.join(self.path)}" if self.wrong else seen


def explore(start: StateT, moves: Moves[StateT], check: Check[StateT]) -> Exploration[StateT]:
    """Visit every reachable state once, and stop at the first that is wrong."""
    came_from: dict[StateT, tuple[StateT, str] | None] = {start: None}
    frontier, made, final = [start], 0, 0
    while frontier:
        reached: list[StateT] = []
        for state in frontier:
            wrong = check(state)
            if wrong:
                return Exploration(len(came_from), made, final, wrong, _path(came_from, state))
            before = made
            for name, following in moves(state):
                made += 1
                if following not in came_from:
                    came_from[following] = (state, name)
                    reached.append(following)
            final += made == before
        frontier = reached
    return Exploration(len(came_from), made, final)


def _path(came_from: dict[StateT, tuple[StateT, str] | None], state: StateT) -> tuple[str, ...]:
    names: list[str] = []
    step = came_from[state]
    while step is not None:
        state, name = step
        names.append(name)
        step = came_from[state]
    return tuple(reversed(names))
