"""A process that dies at any one step, and is started again."""

from dataclasses import dataclass, field
from typing import Any

from schemas.branch import BranchPoint
from schemas.episode import Origin


class Crashed(Exception):
    """The process died here."""


@dataclass
class Fuse:
    """Blows at the ``at``-th step it is asked at, once; counts the steps."""

    at: int = -1
    steps: int = 0
    names: list[str] = field(default_factory=list)

    def step(self, name: str) -> None:
        self.names.append(name)
        self.steps += 1
        if self.steps - 1 == self.at:
            raise Crashed(name)


class Crashing:
    """A port whose every method may crash before it does anything, and after it has done it."""

    def __init__(self, port: object, fuse: Fuse) -> None:
        self._port = port
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        async def crashing(*arguments: object) -> object:
            self._fuse.step(f"before {name}")
            answer = await method(*arguments)
            self._fuse.step(f"after {name}")
            return answer

        return crashing


async def no_fork(origin: Origin) -> BranchPoint:
    """Where a fork begins, in tests that have none."""
    raise AssertionError(f"nothing is made from {origin.episode_id} here")


async def restarted(attempt: Any) -> Any:
    """Do it; when it crashes, do it again, as Temporal would."""
    try:
        return await attempt()
    except Crashed:
        return await attempt()
