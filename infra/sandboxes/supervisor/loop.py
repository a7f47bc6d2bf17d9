"""The loop: who waits for a descriptor or a time is called."""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """Real seconds since the sandbox was set up."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._began = time.monotonic()

    @property
    def now_s(self) -> float:
        return round(time.monotonic() - self._began, 4)


class Timer:
    """Calls ``then`` at ``when``, a reading of the monotonic clock, unless it is cancelled."""

    __slots__ = ("then", "when")

    def __init__(self, when: float, then: Callable[[], None] | None) -> None:
        self.when, self.then = when, then

    def cancel(self) -> None:
        self.then = None


class Loop:
    """Calls whoever waits for a descriptor or a time."""

    def __init__(self) -> None:
        self._poll, self._calls = select.poll(), dict[int, "Callable[[], None]"]()
        self._timers: list[Timer] = []

    def on(self, fd: int, call: Callable[[], None], events: int = select.POLLIN) -> None:
        self._poll.register(fd, events)
        self._calls[fd] = call

    def off(self, fd: int) -> None:
        """No more of this descriptor, which is closed. Again: nothing happens."""
        if self.forget(fd):
            os.close(fd)

    def forget(self, fd: int) -> bool:
        """No more of this descriptor, which stays open; whether it was called for."""
        known = self._calls.pop(fd, None) is not None
        if known:
            self._poll.unregister(fd)
        return known

    def after(self, delay_s: float, then: Callable[[], None]) -> Timer:
        timer = Timer(time.monotonic() + delay_s, then)
        self._timers.append(timer)
        return timer

    def turn(self) -> None:
        """Wait for something to happen, and call for all that has."""
        self._timers = [timer for timer in self._timers if timer.then is not None]
        wait_ms = None
        if self._timers:
            wait_ms = max(0.0, min(timer.when for timer in self._timers) - time.monotonic()) * 1000 + 0.5
        for fd, _ in self._poll.poll(wait_ms):
            call = self._calls.get(fd)
            if call is not None:
                call()
        now = time.monotonic()
        for timer in self._timers:
            then = timer.then
            if then is not None and timer.when <= now:
                timer.cancel()
                then()


class Again:
    """Pauses between looks at the same thing: short ones at first."""

    def __init__(self, limit_s: float) -> None:
        self.pause_s, self.until = 0.002, time.monotonic() + limit_s

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.until

    def next_s(self) -> float:
        self.pause_s = min(self.pause_s * 1.5, 0.05)
        return max(0.0, min(self.pause_s, self.until - time.monotonic()))
