"""A limit for whole requests. A socket's own timeout begins again with every byte that comes or goes.

A service that carries a byte now and then would hold a thread for as long as it likes. So each request has its
time, more of it for what it carries, and when that is over its connection is ended under whoever waits on it.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Condition, Thread
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

__all__ = ["LEAST_BYTES_S", "Limit", "limit_requests", "limited"]

LEAST_BYTES_S = 256 * 1024
"""What a service must carry in a second, on the average."""

_AGAIN_S = 0.1


class Limit:
    """The time of one thread's requests, one after the other."""

    def __init__(self, each_s: float) -> None:
        self.each_s = each_s
        self.over = False
        self._connection: HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._ends = time.monotonic() + each_s
        self._done = False
        self._changed = Condition()

    def begins(self, connection: HTTPConnection) -> None:
        """A request begins, with time of its own."""
        with self._changed:
            self._connection, self._socket = connection, None
            self._ends = time.monotonic() + self.each_s

    def answers(self, connection: HTTPConnection) -> None:
        """The answer is waited for. A connection that is not to be kept lets go of its socket with the head."""
        with self._changed:
            self._socket = connection.sock

    def carried(self, size: int) -> None:
        """So many bytes have come, and make the request's time longer."""
        with self._changed:
            self._ends += size / LEAST_BYTES_S

    def done(self) -> None:
        with self._changed:
            self._done = True
            self._changed.notify()

    def watch(self) -> None:
        """End what takes too long, until all is done. A connection that is being made has no socket yet."""
        with self._changed:
            while not self._done:
                left_s = self._ends - time.monotonic()
                if left_s <= 0:
                    self.over = True
                    self._end()
                self._changed.wait(max(left_s, _AGAIN_S))

    def _end(self) -> None:
        held = self._socket
        if held is None and self._connection is not None:
            held = self._connection.sock
        if held is not None:
            with suppress(OSError):  # it is closed already
                socket.socket.shutdown(held, socket.SHUT_RDWR)  # not TLS's own, which the other thread is in


_RUNNING: ContextVar[Limit | None] = ContextVar("limit of the requests of this thread", default=None)


@contextmanager
def limited(each_s: float) -> Iterator[Limit]:
    """So many seconds each request of this thread may take. Raises ``TimeoutError`` for one that takes longer."""
    limit = Limit(each_s)
    token = _RUNNING.set(limit)
    Thread(target=limit.watch, name="s3-limit", daemon=True).start()
    try:
        yield limit
    except Exception:
        if not limit.over:  # else it is only what became of a connection that was ended
            raise
    finally:
        limit.done()
        _RUNNING.reset(token)
    if limit.over:  # whatever was made of half an answer
        raise TimeoutError("timed out: it answers too slowly")


class _Limited(HTTPConnection):
    """Tells the limit of the thread that uses it. A connection is used by one thread at a time."""

    def request(self, *args: Any, **kwargs: Any) -> None:
        if (limit := _RUNNING.get()) is not None:
            limit.begins(self)
        super().request(*args, **kwargs)

    def getresponse(self) -> Any:
        if (limit := _RUNNING.get()) is not None:
            limit.answers(self)
        return super().getresponse()


class _LimitedTLS(_Limited, HTTPSConnection):
    """The same over TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Limited


class _PoolTLS(HTTPSConnectionPool):
    ConnectionCls = _LimitedTLS


def limit_requests(http: PoolManager) -> PoolManager:
    """Have connections of this pool keep to ``limited``."""
    http.pool_classes_by_scheme = {"http": _Pool, "https": _PoolTLS}
    return http
