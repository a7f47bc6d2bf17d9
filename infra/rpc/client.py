"""The ``World`` port over gRPC."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Self

import grpc.aio
from pydantic import TypeAdapter

from infra.rpc.channel import OPTIONS, address_of
from infra.rpc.failures import from_wire
from infra.rpc.gen import world_pb2 as wire
from infra.rpc.gen.world_pb2_grpc import WorldStub
from infra.rpc.pieces import pieces_of
from schemas.base import canonical
from schemas.branch import Past
from schemas.tool import ToolSpec
from schemas.world import DeliveryReply, DeliveryRequest, DrainReport, Facts, Lease, LeaseRequest
from tiltyard.worlds.arguments import wire_form

TOOLS: TypeAdapter[tuple[ToolSpec, ...]] = TypeAdapter(tuple[ToolSpec, ...])
LEASES: TypeAdapter[tuple[Lease, ...]] = TypeAdapter(tuple[Lease, ...])


class WorldClient:
    """A client of one world server. ``timeout`` bounds each call; a drain may need half a minute of it.

    Needs a running event loop, and belongs to it. It outlives restarts of the server.
    """

    def __init__(self, socket: Path, timeout: timedelta = timedelta(seconds=60)) -> None:
        self._channel = grpc.aio.insecure_channel(address_of(socket), options=OPTIONS)
        self._stub = WorldStub(self._channel)
        self._timeout_s = timeout.total_seconds()

    async def describe(self, world: str) -> tuple[ToolSpec, ...]:
        async with _asking():
            reply = await self._stub.Describe(wire.DescribeRequest(world=world), timeout=self._timeout_s)
        return TOOLS.validate_json(reply.json)

    async def lease(self, request: LeaseRequest, past: Past | None = None) -> Lease:
        asked = wire.Document(json=canonical(request))
        async with _asking():
            if past is None:
                reply = await self._stub.Lease(asked, timeout=self._timeout_s)
            else:
                reply = await self._stub.TakeOver(chain([asked], pieces_of(past)), timeout=self._timeout_s)
        return Lease.model_validate_json(reply.json)

    async def so_far(self, namespace: str, generation: int) -> Past:
        async with _asking():
            request = _fence(namespace, generation)
            pieces = [piece.json async for piece in self._stub.SoFar(request, timeout=self._timeout_s)]
        return Past.model_validate_json(b"".join(pieces))

    async def call(self, request: DeliveryRequest) -> DeliveryReply:
        delivery = wire.Delivery(
            fence=wire.Fence(namespace=request.namespace, generation=request.generation),
            delivery_id=request.delivery_id,
            tool=request.tool,
            arguments=wire_form(request.arguments),
            elsewhere_s=request.elsewhere_s,
            incarnation=request.incarnation,
        )
        async with _asking():
            reply = await self._stub.Call(delivery, timeout=self._timeout_s)
        return DeliveryReply.model_validate_json(reply.json)

    async def admit(self, namespace: str, generation: int, incarnation: int) -> None:
        request = wire.Admission(fence=_fence(namespace, generation), incarnation=incarnation)
        async with _asking():
            await self._stub.Admit(request, timeout=self._timeout_s)

    async def seal(self, namespace: str, generation: int) -> None:
        async with _asking():
            await self._stub.Seal(_fence(namespace, generation), timeout=self._timeout_s)

    async def drain(self, namespace: str, generation: int) -> DrainReport:
        async with _asking():
            reply = await self._stub.Drain(_fence(namespace, generation), timeout=self._timeout_s)
        return DrainReport.model_validate_json(reply.json)

    async def facts(self, namespace: str, generation: int, collections: Sequence[str]) -> Facts:
        request = wire.FactsRequest(fence=_fence(namespace, generation), collections=collections)
        async with _asking():
            pieces = [piece.json async for piece in self._stub.Facts(request, timeout=self._timeout_s)]
        return Facts.model_validate_json(b"".join(pieces))

    async def recycle(self, namespace: str, generation: int) -> bool:
        async with _asking():
            reply = await self._stub.Recycle(_fence(namespace, generation), timeout=self._timeout_s)
        return reply.recycled

    async def quarantine(self, namespace: str, generation: int, reason: str) -> None:
        request = wire.QuarantineRequest(fence=_fence(namespace, generation), reason=reason)
        async with _asking():
            await self._stub.Quarantine(request, timeout=self._timeout_s)

    async def leases(self) -> tuple[Lease, ...]:
        async with _asking():
            reply = await self._stub.Leases(wire.LeasesRequest(), timeout=self._timeout_s)
        return LEASES.validate_json(reply.json)

    async def close(self) -> None:
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _fence(namespace: str, generation: int) -> wire.Fence:
    return wire.Fence(namespace=namespace, generation=generation)


@asynccontextmanager
async def _asking() -> AsyncIterator[None]:
    """One attempt: what the server raised is raised here, and silence is ``WorldUnreachable``."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise from_wire(error) from error
