"""Calls under way in this server, by namespace: what a drain waits out."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class InFlight:
    """Counts calls. It need not be durable: calls of a server that has died are not under way any more."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def call(self, namespace: str) -> Iterator[None]:
        with self._changed:
            self._calls[namespace] += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls[namespace] -= 1
                if not self._calls[namespace]:
                    del self._calls[namespace]
                self._changed.notify_all()

    def count(self, namespace: str) -> int:
        with self._changed:
            return self._calls[namespace]

    def wait_out(self, namespace: str, limit_s: float) -> bool:
        """Wait until none is left. False when the limit has passed before."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._calls[namespace], limit_s)
