"""A child's pipes on the event loop: read and written whenever they are ready, so that neither side blocks.

Not asyncio's own subprocess: its ``wait`` returns only when every pipe has closed, and a daemon that a policy
left behind keeps them open.
"""

import asyncio
import os
from collections.abc import Callable
from typing import IO

__all__ = ["Inlet", "Outlet"]

_CHUNK_BYTES = 65_536


class Outlet:
    """What a child writes. ``taken`` is given every piece, and ``b""`` at the end."""

    def __init__(self, pipe: IO[bytes], taken: Callable[[bytes], None]) -> None:
        self._pipe, self._taken = pipe, taken
        self._loop = asyncio.get_running_loop()
        os.set_blocking(pipe.fileno(), False)
        self.resume()

    def _ready(self) -> bool:
        """Read one piece; whether there was any."""
        try:
            data = os.read(self._pipe.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.close()
        self._taken(data)
        return True

    def catch_up(self, most_bytes: int) -> None:
        """Read now what the child has already written, up to about ``most_bytes``."""
        for _ in range(most_bytes // _CHUNK_BYTES + 1):
            if self._pipe.closed or not self._ready():
                return

    def resume(self) -> None:
        if not self._pipe.closed:
            self._loop.add_reader(self._pipe.fileno(), self._ready)

    def pause(self) -> None:
        """Read no further: a child that goes on writing blocks."""
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe.fileno())

    def close(self) -> None:
        self.pause()
        self._pipe.close()


class Inlet:
    """What a child reads. A child that has closed its end loses what is sent; its silence tells."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._loop = asyncio.get_running_loop()
        self._unsent = memoryview(b"")
        os.set_blocking(pipe.fileno(), False)

    @property
    def unsent(self) -> bool:
        return len(self._unsent) > 0

    def send(self, data: bytes) -> None:
        """Send, in the background where the pipe is full. Only when nothing is unsent."""
        self._unsent = memoryview(data)
        self._ready()
        if self.unsent:
            self._loop.add_writer(self._pipe.fileno(), self._ready)

    def _ready(self) -> None:
        try:
            while self.unsent:
                self._unsent = self._unsent[os.write(self._pipe.fileno(), self._unsent) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent = memoryview(b"")
        self._loop.remove_writer(self._pipe.fileno())

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            self._pipe.close()
