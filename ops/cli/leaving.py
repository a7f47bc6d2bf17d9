"""Leaving trials before their end: by Ctrl-C, or because nobody reads the results. Nothing is silently dropped."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ops.cli.batch import Batch
from ops.cli.called import command_line
from ops.cli.watching import needs
from schemas.episode import EpisodeResult, EpisodeSpec

Again = Callable[[Sequence[EpisodeSpec]], Sequence[str]]
"""The commands that run these trials, which were not started."""


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
    batch: Batch, specs: Sequence[EpisodeSpec], jobs: int, again: Again
) -> tuple[EpisodeResult, ...]:
    """Play all. Raises ``KeyboardInterrupt`` after Ctrl-C and ``BrokenPipeError`` when nobody reads the results,
    when what was begun is safe and the way back has been said."""
    try:
        with _ctrl_c() as interrupts:
            return await _play(batch, specs, jobs, interrupts)
    except BrokenPipeError:
        batch.note("nobody reads the results any more")
        await _let_go_on(batch, tuple(batch.running.values()))
        raise
    finally:
        _tell_not_started(batch, specs, again)


async def _play(
    batch: Batch, specs: Sequence[EpisodeSpec], jobs: int, interrupts: Interrupts
) -> tuple[EpisodeResult, ...]:
    playing = asyncio.create_task(batch.play(specs, jobs))
    interrupted = asyncio.create_task(interrupts.pause.wait())
    try:
        await asyncio.wait((playing, interrupted), return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            return await playing
        running = tuple(batch.running.values())
    finally:
        interrupted.cancel()
        playing.cancel()
    await asyncio.wait((playing,))
    await leave(batch, running, interrupts)
    raise KeyboardInterrupt


async def leave(batch: Batch, running: Sequence[EpisodeSpec], interrupts: Interrupts) -> None:
    """First Ctrl-C: pause what runs. Second one: let it all go on. Either way say how to come back."""
    batch.note("pausing at the turn boundary; Ctrl-C again leaves the episodes running")
    pausing = asyncio.gather(*map(batch.pause, running))
    detached = asyncio.create_task(interrupts.detach.wait())
    await asyncio.wait((pausing, detached), return_when=asyncio.FIRST_COMPLETED)
    detached.cancel()
    if not interrupts.detach.is_set():
        for status in await pausing:
            batch.note("\n".join(needs(status)))
        return
    pausing.cancel()
    await asyncio.gather(pausing, return_exceptions=True)  # whatever hindered it, the episodes are to go on
    await asyncio.gather(*map(batch.resume, running))
    await _let_go_on(batch, running)


async def _let_go_on(batch: Batch, running: Sequence[EpisodeSpec]) -> None:
    for spec in running:
        await batch.begin(spec)
        batch.note(command_line("episodes", "watch", spec.episode_id))


def _tell_not_started(batch: Batch, specs: Sequence[EpisodeSpec], again: Again) -> None:
    left = [spec for spec in specs if spec.episode_id not in batch.begun]
    if left:
        batch.note("\n".join((f"{len(left)} of {len(specs)} trials were not started; to run them:", *again(left))))
