"""The ``Sandboxes`` port over the socket of a sandbox host."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from infra.sandboxes.frames import BUFFER_BYTES
from infra.sandboxes.link import Link
from infra.sandboxes.wire import METHODS
from infra.sockets import usable
from schemas.host import Capacity
from schemas.operation import SandboxReply, SandboxRequest
from schemas.sandbox import DriverName, SandboxOffer, SandboxOrder, SandboxRecord, SandboxRef, Snapshot, WorldAccess
from schemas.sandbox_facts import SandboxDrain, SandboxFacts
from tiltyard.errors import EnvironmentFailed, SandboxUnreachable


class HostClient:
    """A client of a sandbox host, over one connection that is made when it is needed, and made again when it broke.

    A caller that is cancelled leaves the queue for a slot; whatever else it asked for goes on. There is no limit of
    time: a host that hangs is killed by whoever watches it, and that breaks the connection.
    """

    def __init__(self, path: Path) -> None:
        self._path = usable(path)
        self._link: Link | None = None
        self._connecting = asyncio.Lock()

    async def offer(self, driver: DriverName) -> SandboxOffer:
        answer: SandboxOffer = await self._ask("offer", driver)
        return answer

    async def provision(self, order: SandboxOrder) -> SandboxRef:
        answer: SandboxRef = await self._ask("provision", order)
        return answer

    async def connect(self, sandbox: SandboxRef, access: WorldAccess) -> None:
        await self._ask("connect", sandbox, access)

    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        answer: SandboxReply = await self._ask("call", sandbox, request)
        return answer

    async def snapshot(self, sandbox: SandboxRef, known: Mapping[str, str]) -> Snapshot:
        answer: Snapshot = await self._ask("snapshot", sandbox, dict(known))
        return answer

    async def settle(self, sandbox: SandboxRef, limit_s: float) -> bool:
        answer: bool = await self._ask("settle", sandbox, limit_s)
        return answer

    async def seal(self, sandbox: SandboxRef) -> None:
        await self._ask("seal", sandbox)

    async def drain(self, sandbox: SandboxRef) -> SandboxDrain:
        answer: SandboxDrain = await self._ask("drain", sandbox)
        return answer

    async def facts(self, sandbox: SandboxRef) -> SandboxFacts:
        answer: SandboxFacts = await self._ask("facts", sandbox)
        return answer

    async def release(self, sandbox: SandboxRef) -> None:
        await self._ask("release", sandbox)

    async def sandboxes(self) -> tuple[SandboxRecord, ...]:
        answer: tuple[SandboxRecord, ...] = await self._ask("sandboxes")
        return answer

    async def sweep(self) -> int:
        answer: int = await self._ask("sweep")
        return answer

    async def capacity(self) -> Capacity:
        answer: Capacity = await self._ask("capacity")
        return answer

    async def close(self) -> None:
        """Hang up. The sandboxes stay."""
        if self._link is not None:
            self._link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask(self, method: str, *arguments: object) -> Any:
        fields, answer = METHODS[method]
        asked = fields.model_validate(dict(zip(fields.model_fields, arguments, strict=True)))
        link = await self._connected()
        said = await link.ask(method, **asked.model_dump())
        try:
            return answer.validate_python(said.get("value"))
        except ValidationError as error:
            raise EnvironmentFailed(f"the sandbox host answered {method!r} with something else: {error}") from error

    async def _connected(self) -> Link:
        async with self._connecting:
            if self._link is None or self._link.closed:
                try:
                    ends = await asyncio.open_unix_connection(self._path, limit=BUFFER_BYTES)
                except OSError as error:
                    raise SandboxUnreachable(f"no sandbox host at {self._path} ({error.strerror})") from error
                self._link = Link(*ends, self._hung_up, forgets=True)
            return self._link

    def _hung_up(self) -> SandboxUnreachable:
        return SandboxUnreachable(f"the sandbox host at {self._path} ended before it answered")
