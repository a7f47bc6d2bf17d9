"""A socket before the Docker engine: what is asked there is passed on, or answered as a sick engine would."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

REAL = "/var/run/docker.sock"


def answer(status: str, body: str = '{"message": "so it is"}') -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


SICK: dict[str, bytes | None] = {
    "silent": None,
    "failing": answer("500 Internal Server Error"),
    "busy": answer("409 Conflict"),
    "garbage": b"\x00\xff no HTTP at all\r\n\r\n",
    "hanging up": b"",
    "of another kind": answer("200 OK", "[]"),
    "of no known kind": answer("200 OK", "[{}]"),
    "no JSON": answer("200 OK", "<html>"),
    "cut off": answer("200 OK")[:-5],
}
"""What it answers with then; nothing for ever where there is ``None``."""


class EngineGate:
    """``how`` names one of ``SICK``; empty: everything is passed on. Counts what is ``asked`` while it is sick."""

    def __init__(self, path: Path) -> None:
        self.place = f"unix://{path}"
        self.how = ""
        self.asked = 0

    async def passing(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, which becomes sick with the engine."""
        back: asyncio.Task[None] | None = None
        onward: asyncio.StreamWriter | None = None
        try:
            while said := await reader.read(65_536):
                if self.how:
                    await self._sick(writer)
                    return
                if onward is None:
                    engine, onward = await asyncio.open_unix_connection(REAL)
                    back = asyncio.create_task(_pass_on(engine, writer))
                onward.write(said)
        finally:
            if back:
                back.cancel()
            for end in filter(None, (onward, writer)):
                end.close()

    async def _sick(self, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        said = SICK[self.how]
        if said is None:
            await asyncio.Event().wait()
        elif said:
            writer.write(said)
            await writer.drain()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while said := await reader.read(65_536):
            writer.write(said)
        writer.close()


@asynccontextmanager
async def engine_gate(path: Path) -> AsyncIterator[EngineGate]:
    gate = EngineGate(path)
    open_ones: set[asyncio.Task[None]] = set()

    def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ones.add(task := asyncio.create_task(gate.passing(reader, writer)))
        task.add_done_callback(open_ones.discard)

    server = await asyncio.start_unix_server(come, path)
    try:
        yield gate
    finally:
        server.close()
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)
