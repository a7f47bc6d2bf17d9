"""The sandbox port on a unix socket, for the same user."""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from infra.sandboxes.frames import BUFFER_BYTES, Garbage, frame_of, read_frame
from infra.sandboxes.wire import METHODS, failure_of
from infra.sockets import listening, usable
from tiltyard.errors import BadInput, StackFailed, TiltyardError
from tiltyard.ports import Sandboxes

log = logging.getLogger(__name__)

CREDENTIALS = struct.Struct("3i")
"""Process, user and group of who is on the other side of a unix socket (``unix(7)``)."""


@asynccontextmanager
async def serving(sandboxes: Sandboxes, path: Path) -> AsyncIterator[None]:
    """Serve on ``path``; at the end every connection is broken.

    A socket that a dead process left is taken over. Raises ``StackFailed`` when a living one listens there, and
    ``BadInput`` when the path is too long for a socket.
    """
    conversations: set[asyncio.Task[None]] = set()

    def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversations.add(task := asyncio.create_task(_Conversation(sandboxes, reader, writer).run()))
        task.add_done_callback(conversations.discard)

    server = await asyncio.start_unix_server(converse, sock=_bound(path), limit=BUFFER_BYTES)
    try:
        yield
    finally:
        server.close()
        for task in conversations:
            task.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)


def _bound(path: Path) -> socket.socket:
    """A socket there that nobody but this user can connect to, not for a moment."""
    if listening(usable(path)):
        raise StackFailed(f"a sandbox host is listening on {path} already")
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(os.fspath(path))
    path.chmod(0o600)
    return bound


class _Conversation:
    """One connection. Each request is a task of its own, so that none waits for another."""

    def __init__(self, sandboxes: Sandboxes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._sandboxes, self._reader, self._writer = sandboxes, reader, writer
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Answer until the other side hangs up or sends what cannot be understood."""
        try:
            if not _same_user(self._writer.get_extra_info("socket")):
                log.warning("somebody else's process was turned away")
                return
            while (asked := await read_frame(self._reader)) is not None:
                self._begin(asked)
        except (Garbage, ConnectionError) as error:
            log.warning("a connection was closed: %s", error)
        finally:
            for task in self._tasks.values():
                task.cancel()  # nobody waits any more; what has begun goes on
            self._writer.close()

    def _begin(self, asked: dict[str, Any]) -> None:
        number = asked.pop("id")
        if asked.get("do") == "forget":
            if task := self._tasks.get(asked.get("of", 0)):
                task.cancel()
            return
        task = self._tasks[number] = asyncio.create_task(self._answer(number, asked))
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _answer(self, number: int, asked: dict[str, Any]) -> None:
        try:
            frame = frame_of({"id": number, "ok": {"value": await self._done(asked)}})
        except Exception as error:
            if not isinstance(error, TiltyardError):
                log.exception("a request to the sandbox host failed")
            frame = frame_of({"id": number, "error": failure_of(error)})
        try:
            self._writer.write(frame)
            await self._writer.drain()
        except ConnectionError:
            log.info("nobody waits for the answer to %s any more", asked.get("do"))

    async def _done(self, asked: dict[str, Any]) -> Any:
        """Have the port do it: parsed on the way in, what a frame takes on the way out."""
        name = str(asked.pop("do", ""))
        if name not in METHODS:
            raise BadInput(f"{name[:80]!r} is no method", field="do", fix=f"use one of {', '.join(METHODS)}")
        fields, answer = METHODS[name]
        try:
            parsed = fields.model_validate(asked)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)[0]
            where = ".".join([name, *map(str, found["loc"])])
            raise BadInput(found["msg"], field=where, fix="send the fields of the method") from None
        arguments = [getattr(parsed, field) for field in fields.model_fields]
        return answer.dump_python(await getattr(self._sandboxes, name)(*arguments))


def _same_user(connection: socket.socket) -> bool:
    """Where the system tells who it is; elsewhere the folder of the socket keeps others out."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    _, user, _ = CREDENTIALS.unpack(said)
    return bool(user == os.getuid())
