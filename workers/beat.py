"""The sign of life of a process: the file that says that it is ready is touched for as long as it does its work."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

BEAT_S = 1.0
"""Between two touches."""


def beat(marker: Path) -> None:
    """Touch the file; where it has vanished whoever watches the process sees that."""
    with suppress(FileNotFoundError):
        os.utime(marker)


async def beat_until(stop: asyncio.Event, marker: Path) -> None:
    """Beat from the event loop: one that is blocked is silent."""
    while not stop.is_set():
        beat(marker)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), BEAT_S)


def stop_at_signals() -> asyncio.Event:
    """Set by SIGTERM and SIGINT; for a process with an event loop."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
