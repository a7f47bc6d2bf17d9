"""The children of one worker: at most one an episode, kept between slices, ended when nobody asks any more."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from infra.policies.child import Child, Launch
from infra.policies.orphans import Orphans
from infra.policies.questions import Questions
from schemas.view import View
from tiltyard.errors import EnvironmentFailed
from tiltyard.ports import NONE_ENDED, Ended

__all__ = ["Children"]

REMEMBERED = 1000
"""Episodes of which it is remembered what was ended."""


@dataclass
class _Kept:
    child: Child
    questions: Questions = field(default_factory=Questions)
    idle: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        if self.idle is not None:
            self.idle.cancel()


class Children:
    """Starts, keeps and ends children.

    ``idle`` is how long a child may live unasked: an episode may go on at another worker, which has its own.
    A policy is a function of the view, so a child that was ended is simply started again. For ``adopts`` see
    ``Orphans``.
    """

    def __init__(self, idle: timedelta = timedelta(seconds=60), *, adopts: bool = False) -> None:
        self._idle_s = idle.total_seconds()
        self._orphans = Orphans(adopts=adopts)
        self._kept: dict[str, _Kept] = {}
        self._endings: dict[asyncio.Task[Ended], str] = {}
        self._ended: OrderedDict[str, Ended] = OrderedDict()
        self._threads = ThreadPoolExecutor(8, "policy-end")  # not the loop's: a stubborn policy holds up nothing
        self._closed = False

    def ensure(self, episode_id: str, launch: Launch) -> Child:
        """The episode's child, started if need be. Raises ``EnvironmentFailed``."""
        if self._closed:
            raise EnvironmentFailed("the worker is shutting down: no policy is started")
        kept = self._kept.get(episode_id)
        if kept is None:
            kept = self._kept[episode_id] = _Kept(Child.start(launch, self._orphans))
            self._rest(episode_id, kept)
        return kept.child

    async def ask(self, episode_id: str, launch: Launch, view: View) -> bytes:
        """Ask the episode's child. A child that fails, or whose answer is not waited for, is ended."""
        async with self._in_turn(episode_id, launch) as child:
            kept = self._kept[episode_id]
            kept.wake()
            try:
                answer = await child.ask(await kept.questions.line(view))
            except BaseException:
                self.retire(episode_id)
                raise
            self._rest(episode_id, kept)
            return answer

    @asynccontextmanager
    async def _in_turn(self, episode_id: str, launch: Launch) -> AsyncIterator[Child]:
        """The child, for one asker at a time. Whoever waited for a child that was ended gets a new one."""
        while True:
            child = self.ensure(episode_id, launch)
            async with child.lock:
                kept = self._kept.get(episode_id)
                if kept is not None and kept.child is child:
                    yield child
                    return

    def _rest(self, episode_id: str, kept: _Kept) -> None:
        if self._kept.get(episode_id) is kept:
            kept.idle = asyncio.get_running_loop().call_later(self._idle_s, self.retire, episode_id)

    def retire(self, episode_id: str) -> None:
        """Begin to end the episode's child, in the background; ``end`` and ``aclose`` wait for it."""
        kept = self._kept.pop(episode_id, None)
        if kept is None:
            return
        kept.wake()
        ending = asyncio.get_running_loop().create_task(kept.child.end(self._threads))
        self._endings[ending] = episode_id
        ending.add_done_callback(self._has_ended)

    def _has_ended(self, ending: "asyncio.Task[Ended]") -> None:
        episode_id = self._endings.pop(ending)
        if not ending.cancelled() and ending.exception() is None:
            self._ended[episode_id] = self._ended.pop(episode_id, NONE_ENDED) + ending.result()
        while len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)

    async def end(self, episode_id: str) -> Ended:
        """End what the episode has; what has been ended of it so far, so a repeat says the same."""
        self.retire(episode_id)
        endings = [ending for ending, whose in self._endings.items() if whose == episode_id]
        await asyncio.gather(*(asyncio.shield(ending) for ending in endings))
        return self._ended.get(episode_id, NONE_ENDED)

    async def aclose(self, within: timedelta = timedelta(seconds=5)) -> None:
        """End all children and start no more. Takes no longer than ``within``: what is then left ends with the
        worker's process."""
        self._closed = True
        for episode_id in list(self._kept):
            self.retire(episode_id)
        if self._endings:
            await asyncio.wait(list(self._endings), timeout=within.total_seconds())
        self._threads.shutdown(wait=False)
