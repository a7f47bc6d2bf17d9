"""Frames in and out of the control socket."""

from __future__ import annotations

import os
import select

from infra.sandboxes.supervisor.limits import MAX_JSON_BYTES, MAX_TAIL_BYTES, PIPE_BYTES
from infra.sandboxes.supervisor.loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class HungUp(Exception):
    """The other side of the control socket is gone."""


class Control:
    """Frames in and out of the control socket."""

    def __init__(self, fd: int, loop: Loop, handle: Callable[[bytes, bytes], None]) -> None:
        self.fd, self._loop, self._handle = fd, loop, handle
        self._in, self._out = bytearray(), list[memoryview]()
        os.set_blocking(fd, False)
        loop.on(fd, self._ready)

    def send(self, body: list[bytes], tail: list[bytes]) -> None:
        """A frame of these pieces. Small ones are sent together; large ones are not copied once more."""
        idle = not self._out
        small = bytearray(b"".join(sum(map(len, pieces)).to_bytes(4, "big") for pieces in (body, tail)))
        for piece in (*body, *tail):
            if len(piece) < PIPE_BYTES:
                small += piece
                continue
            self._out += [memoryview(small), memoryview(piece)]
            small = bytearray()
        self._out.append(memoryview(small))
        if idle:
            self._write()

    def _ready(self) -> None:
        self._write()
        try:
            data = os.read(self.fd, 4 * PIPE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            raise HungUp from None
        if not data:
            raise HungUp
        self._in += data
        while len(self._in) >= 8:
            middle = 8 + int.from_bytes(self._in[:4], "big")
            end = middle + int.from_bytes(self._in[4:8], "big")
            if middle > 8 + MAX_JSON_BYTES or end > middle + MAX_TAIL_BYTES:
                raise HungUp  # what follows is out of step
            if len(self._in) < end:
                break
            with memoryview(self._in) as whole:
                body, tail = bytes(whole[8:middle]), bytes(whole[middle:end])
            del self._in[:end]
            self._handle(body, tail)

    def _write(self) -> None:
        done = 0
        try:
            for done in range(len(self._out)):
                while self._out[done]:
                    self._out[done] = self._out[done][os.write(self.fd, self._out[done]) :]
            self._out = []
            self._loop.on(self.fd, self._ready, select.POLLIN)
        except BlockingIOError:
            del self._out[:done]
            self._loop.on(self.fd, self._ready, select.POLLIN | select.POLLOUT)
        except OSError:
            raise HungUp from None
