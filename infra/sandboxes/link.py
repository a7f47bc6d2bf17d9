"""One side of a connection that asks: many questions at once, answered in any order.

The same frames are spoken between worker and host and between host and supervisor.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Self

from infra.sandboxes.frames import BUFFER_BYTES, Garbage, frame_of, read_frame
from tiltyard import errors
from tiltyard.errors import BadInput, EnvironmentFailed, TiltyardError

HungUp = Callable[[], TiltyardError]
"""Makes the error that a hang-up is, for those who wait for an answer."""

Asked = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Answers a question of the other side."""


MAX_MESSAGE = 1_000
"""Characters kept of an error's message."""

log = logging.getLogger(__name__)


class Link:
    """A connection to one who answers. ``forgets``: the other side is told of a caller that was cancelled.
    ``asked`` answers what the other side asks, where it may."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        hung_up: HungUp,
        *,
        forgets: bool = False,
        asked: Asked | None = None,
    ) -> None:
        self._reader, self._writer, self._hung_up, self._forgets = reader, writer, hung_up, forgets
        self._asked_us, self._answering = asked, set[asyncio.Task[None]]()
        self._asked = 0
        self._open: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._closed = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def over(cls, control: socket.socket, hung_up: HungUp, asked: Asked | None = None) -> Self:
        """A link over a connected unix socket, which belongs to it from now on."""
        return cls(*await asyncio.open_unix_connection(sock=control, limit=BUFFER_BYTES), hung_up, asked=asked)

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    async def ask(self, do: str, **fields: object) -> dict[str, Any]:
        """The answer. Raises the error that was answered, or that of a hang-up."""
        if self.closed:
            raise self._hung_up()
        self._asked += 1
        number = self._asked
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[number] = answer
        try:
            await self._send({"id": number, "do": do, **fields})
            return await answer
        except asyncio.CancelledError:
            if self._forgets and not self.closed:
                self._asked += 1
                self._writer.write(frame_of({"id": self._asked, "do": "forget", "of": number}))
            raise
        finally:
            del self._open[number]
            if answer.done() and not answer.cancelled():
                answer.exception()  # seen: a question that could not be sent raises its own

    async def wait_closed(self) -> None:
        """Wait for the hang-up."""
        await self._closed.wait()

    def close(self) -> None:
        """Hang up. Again: nothing happens."""
        self._reading.cancel()
        self._end()

    async def _send(self, question: dict[str, object]) -> None:
        try:
            self._writer.write(frame_of(question))
            await self._writer.drain()
        except ConnectionError:
            self._end()
            raise self._hung_up() from None

    async def _read(self) -> None:
        try:
            while (said := await read_frame(self._reader)) is not None:
                if "do" in said and self._asked_us is not None:
                    self._begin_answer(self._asked_us, said)
                else:
                    self._answered(said)
        except (Garbage, ConnectionError):
            pass  # one that speaks nonsense is as good as gone
        finally:
            self._end()

    def _begin_answer(self, asked_us: Asked, said: dict[str, Any]) -> None:
        self._answering.add(task := asyncio.create_task(self._answer(asked_us, said)))
        task.add_done_callback(self._answering.discard)

    async def _answer(self, asked_us: Asked, said: dict[str, Any]) -> None:
        try:
            told: dict[str, Any] = {"ok": await asked_us(said)}
        except Exception as error:
            log.warning("the question %r could not be answered: %r", said["do"], error)
            told = {"error": {"message": str(error)[:MAX_MESSAGE]}}
        with suppress(TiltyardError):  # nobody is there any more
            await self._send({"id": said["id"], **told})

    def _answered(self, said: dict[str, Any]) -> None:
        answer = self._open.get(said.get("id", 0))
        if answer is None or answer.done():
            return
        if isinstance(ok := said.get("ok"), dict):
            answer.set_result(ok)
        else:
            answer.set_exception(_raised(said.get("error")))

    def _end(self) -> None:
        self._closed.set()
        self._writer.close()
        for task in self._answering:
            task.cancel()
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(self._hung_up())


def _raised(failure: object) -> TiltyardError:
    said = {name: str(text) for name, text in failure.items()} if isinstance(failure, dict) else {}
    kind, message = getattr(errors, said.get("kind", ""), None), said.get("message", "no answer that can be read")
    if isinstance(kind, type) and issubclass(kind, BadInput):
        return kind(message, field=said.get("field", ""), fix=said.get("fix", ""))
    if isinstance(kind, type) and issubclass(kind, TiltyardError):
        return kind(message)
    return EnvironmentFailed(message)
