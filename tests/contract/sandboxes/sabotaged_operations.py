"""Sandboxes that break one promise each about what they are asked to do. The kit has to notice each of them."""

import asyncio
from collections.abc import Mapping
from typing import Any

from schemas.operation import ExecRequest, ReadRequest, ReadResult, SandboxReply, SandboxRequest, WriteRequest
from schemas.sandbox import SandboxRef, Snapshot
from tests.contract.sandboxes.sabotaged_sandboxes import with_result
from tiltyard.errors import DeliveryConflict, LateWrite
from tiltyard.testing.memory_box import MemoryBox
from tiltyard.testing.memory_sandboxes import MemorySandboxes


class EndsWithItsListener(MemorySandboxes):
    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        try:
            return await super().call(sandbox, request)
        except asyncio.CancelledError:
            box = self._boxes[sandbox.name]
            box._kill(box._tasks_of(request.op_id))
            box.operations.pop(request.op_id)
            raise


class KnowsNoConflict(MemorySandboxes):
    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        try:
            return await super().call(sandbox, request)
        except DeliveryConflict:
            return self._boxes[sandbox.name].operations[request.op_id].outcome.result()


class CountsTheTime(MemorySandboxes):
    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        known = self._boxes[sandbox.name].operations.get(request.op_id)
        if known is not None and known.request != request:
            raise DeliveryConflict("it had another time")
        return await super().call(sandbox, request)


class TellsTheLastTime(MemorySandboxes):
    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        reply = await super().call(sandbox, request)
        return with_result(reply, {"timeout_s": request.timeout_s}) if isinstance(request, ExecRequest) else reply


class _KillsTheLeaderOnly(MemoryBox):
    def _tasks_of(self, op_id: str) -> list["asyncio.Task[Any]"]:
        return []


class KillsTheLeaderOnly(MemorySandboxes):
    box_kind = _KillsTheLeaderOnly


class WaitsForTheEndOfTheOutput(MemorySandboxes):
    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        reply = await super().call(sandbox, request)
        if isinstance(request, ExecRequest):
            await self.settle(sandbox, request.timeout_s)
        return reply


class ReadsText(MemorySandboxes):
    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        reply = await super().call(sandbox, request)
        if reply.read is None:
            return reply
        text = reply.read.content.decode("utf-8", "replace").encode()
        return reply.model_copy(update={"read": reply.read.model_copy(update={"content": text})})


class FollowsLinks(MemorySandboxes):
    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        reply = await super().call(sandbox, request)
        if reply.code == "bad_path" and isinstance(request, ReadRequest):
            return SandboxReply(op_id=request.op_id, read=ReadResult(content=b"root:x:0", size=8))
        return reply


class WritesThroughLinks(MemorySandboxes):
    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        reply = await super().call(sandbox, request)
        if reply.code == "bad_path" and isinstance(request, WriteRequest):
            return await super().call(sandbox, request.model_copy(update={"path": "secret", "op_id": "through"}))
        return reply


class TellsNothingApart(MemorySandboxes):
    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        reply = await super().call(sandbox, request)
        return reply.model_copy(update={"code": reply.code and "not_found"})


class KnowsByDigestAlone(MemorySandboxes):
    async def snapshot(self, sandbox: SandboxRef, known: Mapping[str, str]) -> Snapshot:
        entries = (await super().snapshot(sandbox, known)).entries
        omitted = {"content": None}
        return Snapshot(
            entries=tuple(one.model_copy(update=omitted if one.digest in known.values() else {}) for one in entries)
        )


class SendsEverything(MemorySandboxes):
    async def snapshot(self, sandbox: SandboxRef, known: Mapping[str, str]) -> Snapshot:
        return await super().snapshot(sandbox, {})


class ForgetsTheSeal(MemorySandboxes):
    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        self._live(sandbox).state = "live"
        return await super().call(sandbox, request)


class ForgetsTheReceiptsAtTheSeal(MemorySandboxes):
    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        if self._live(sandbox).state == "sealed":
            raise LateWrite(request.op_id)
        return await super().call(sandbox, request)
