"""What programs in one sandbox ask of their world: from the supervisor's question to its answer.

The supervisor waits for an answer as long as it takes, and so do its programs. Whoever waits for one of them is
told when the world has been away for too long; the time in which it was away is nobody's.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from pydantic import ConfigDict, Field

from schemas.base import Model
from schemas.sandbox import WorldAccess
from tiltyard.errors import EnvironmentFailed, WorldUnreachable
from tiltyard.sandbox.service import Asked, WorldService

T = TypeVar("T")


class Worlds(NamedTuple):
    """The way to the worlds. ``service`` is asked for before each answer, and may make it for the first one. That a
    world has been away for ``patience`` is told to those who wait."""

    service: Callable[[], Awaitable[WorldService]]
    patience: timedelta = timedelta(seconds=120)


class Question(Model):
    """A frame of the supervisor's. It comes out of a sandbox: nothing in it is trusted, and nothing of it names a
    delivery that is not of its own kind."""

    model_config = ConfigDict(extra="ignore")

    op_id: str
    number: int = Field(ge=0)
    host: str
    method: str
    path: str
    body: bytes
    elsewhere_s: int = Field(ge=0)

    @property
    def asked(self) -> Asked:
        sent = f"{self.op_id}/http/{self.number}"
        return Asked(self.host, self.method, self.path, self.body, sent, self.elsewhere_s)


class Inside:
    """Answers the questions of one sandbox's programs."""

    def __init__(self, worlds: Worlds | None) -> None:
        self._worlds = worlds
        self._away = asyncio.Event()
        self._limits: set[asyncio.Timeout] = set()

    async def answer(
        self,
        access: WorldAccess | None,
        incarnation: int,
        exposes: Mapping[str, Sequence[str]],
        question: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The answer, whenever there is one."""
        if self._worlds is None or access is None:
            raise EnvironmentFailed("there is no world for it")
        asked, lost_s = Question.model_validate(question).asked, 0.0
        while True:
            began = time.monotonic()
            try:
                service = await self._worlds.service()
                told = await service.answer(access, incarnation, exposes, asked)
                break
            except WorldUnreachable:
                lost_s += self._excuse(time.monotonic() - began)
            if lost_s > self._worlds.patience.total_seconds():
                self._away.set()
        self._excuse(time.monotonic() - began - told.took_s)
        self._away.clear()
        clock = {} if told.now_s is None else {"now_s": told.now_s, "elsewhere_s": told.elsewhere_s}
        return {"status": told.status, "body": told.body, "took_s": told.took_s, **clock}

    async def unless_away(self, work: Coroutine[None, None, T]) -> T:
        """What it comes to. Raises ``WorldUnreachable`` while its programs wait for a world that stays away."""
        working, away = asyncio.create_task(work), asyncio.create_task(self._away.wait())
        try:
            await asyncio.wait({working, away}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise WorldUnreachable("programs in the sandbox wait for the world, which does not answer")
        finally:
            for task in (working, away):
                task.cancel()

    @contextmanager
    def excusing(self, limit: asyncio.Timeout) -> Iterator[None]:
        """Meanwhile the time in which the world is away does not count."""
        self._limits.add(limit)
        try:
            yield
        finally:
            self._limits.discard(limit)

    def _excuse(self, lost_s: float) -> float:
        for limit in self._limits:
            until = limit.when()
            if until is not None:
                limit.reschedule(until + lost_s)
        return lost_s
