"""Leaving trials before their end: by Ctrl-C, or because nobody reads the results. Nothing is silently dropped."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from ops.cli.batch import Batch
from ops.cli.called import command_line
from ops.cli.counting import counted
from ops.cli.watching import way_on
from schemas.episode import EpisodeResult, EpisodeSpec

Again = Callable[[Sequence[EpisodeSpec]], Sequence[str]]
"""The commands that run these trials, which were not started."""

TellDone = Callable[[Sequence[EpisodeResult]], None]
"""Shows the results of the trials that have ended."""


class Interrupts:
    """Counts Ctrl-C: ``pause`` is set by the first one, ``detach`` by the second."""

    def __init__(self) -> None:
        self.pause, self.detach = asyncio.Event(), asyncio.Event()

    def hit(self) -> None:
        (self.detach if self.pause.is_set() else self.pause).set()


@contextmanager
def _ctrl_c() -> Iterator[Interrupts]:
    loop, interrupts = asyncio.get_running_loop(), Interrupts()
    loop.add_signal_handler(signal.SIGINT, interrupts.hit)
    try:
        yield interrupts
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def play_until_left(
    batch: Batch, specs: Sequence[EpisodeSpec], jobs: int, tell_done: TellDone, again: Again
) -> tuple[EpisodeResult, ...]:
    """Play all. Raises ``KeyboardInterrupt`` after Ctrl-C and ``BrokenPipeError`` when nobody reads the results.

    Whatever ends it early: what was begun is safe, and what was done, the way back to the rest, and what was not
    started are told.
    """
    left, way_back = True, list[str]()
    try:
        with _ctrl_c() as interrupts:
            running = await _play(batch, specs, jobs, interrupts)
            if running is None:
                left = False
                return batch.done(specs)
            way_back = await leave(batch, running, interrupts)
        raise KeyboardInterrupt
    except BrokenPipeError:
        batch.note("nobody reads the results any more")
        way_back = await _let_go_on(batch, tuple(batch.running.values()))
        raise
    finally:
        if left:
            batch.stop_showing()
            _tell_done(batch, specs, tell_done)
            way_back = way_back or _to_follow(tuple(batch.running.values()))
            batch.note("\n".join((*way_back, *_not_started(batch, specs, again))))


async def _play(
    batch: Batch, specs: Sequence[EpisodeSpec], jobs: int, interrupts: Interrupts
) -> tuple[EpisodeSpec, ...] | None:
    """Play until all is done or Ctrl-C comes; what ran then."""
    playing = asyncio.create_task(batch.play(specs, jobs))
    interrupted = asyncio.create_task(interrupts.pause.wait())
    try:
        await asyncio.wait((playing, interrupted), return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            await playing
            return None
        running = tuple(batch.running.values())
    finally:
        interrupted.cancel()
        playing.cancel()
    await asyncio.wait((playing,))
    return running


async def leave(batch: Batch, running: Sequence[EpisodeSpec], interrupts: Interrupts) -> list[str]:
    """First Ctrl-C: pause what runs. Second one: let it all go on. The way back to what has no end yet."""
    batch.note("pausing at the turn boundary; Ctrl-C again leaves the episodes running")
    pausing = asyncio.gather(*map(batch.pause, running))
    detached = asyncio.create_task(interrupts.detach.wait())
    await asyncio.wait((pausing, detached), return_when=asyncio.FIRST_COMPLETED)
    detached.cancel()
    if not interrupts.detach.is_set():
        statuses = await pausing
        for spec, status in zip(running, statuses, strict=True):
            if status.phase == "done":
                await batch.collect(spec)
        return list(way_on(statuses))
    pausing.cancel()
    await asyncio.gather(pausing, return_exceptions=True)  # whatever hindered it, the episodes are to go on
    await asyncio.gather(*map(batch.resume, running))
    return await _let_go_on(batch, running)


async def _let_go_on(batch: Batch, running: Sequence[EpisodeSpec]) -> list[str]:
    for spec in running:
        await batch.begin(spec)
    return _to_follow(running)


def _to_follow(running: Sequence[EpisodeSpec]) -> list[str]:
    follow = [command_line("episodes", "watch", spec.episode_id) for spec in running]
    return [f"{counted(len(running), 'episode')} left running; to follow:", *follow] if running else []


def _tell_done(batch: Batch, specs: Sequence[EpisodeSpec], tell_done: TellDone) -> None:
    done = batch.done(specs)
    if done:
        batch.note(f"{len(done)} of {counted(len(specs), 'trial')} ended:")
        with suppress(BrokenPipeError):  # Ctrl-C ends the readers of a pipe too
            tell_done(done)


def _not_started(batch: Batch, specs: Sequence[EpisodeSpec], again: Again) -> tuple[str, ...]:
    left = [spec for spec in specs if spec.episode_id not in batch.begun]
    if not left:
        return ()
    was, them = ("was", "it") if len(left) == 1 else ("were", "them")
    return (f"{len(left)} of {counted(len(specs), 'trial')} {was} not started; to run {them}:", *again(left))
