"""Namespaces and sandboxes: taken before the turns, given back after the drain."""

import asyncio

from temporalio import activity

from activities.attempt import attempt
from schemas.slice import LeaseRef, ReleaseRequest
from schemas.start import LeaseOrder, Provisioned, ProvisionOrder
from tiltyard.episode.leasing import Leasing
from tiltyard.episode.sandboxing import Sandboxing


class LeaseActivities:
    """Leases, recycles and quarantines namespaces; provisions and discards sandboxes."""

    def __init__(self, leasing: Leasing, sandboxing: Sandboxing) -> None:
        self._leasing = leasing
        self._sandboxing = sandboxing

    @activity.defn
    async def lease(self, order: LeaseOrder) -> LeaseRef:
        async with attempt():
            return await self._leasing.lease(order, activity.info().workflow_id or "")

    @activity.defn
    async def provision(self, order: ProvisionOrder) -> Provisioned:
        async with attempt():
            return await self._sandboxing.provision(order, activity.info().workflow_id or "")

    @activity.defn
    async def release(self, request: ReleaseRequest) -> bool:
        """True when the namespace can be used again. Neither of the two waits for the other."""
        async with attempt():
            namespace, sandbox = await asyncio.gather(
                self._leasing.release(request), self._discard(request), return_exceptions=True
            )
            for error in (namespace, sandbox):
                if isinstance(error, BaseException):
                    raise error
            return namespace is True

    async def _discard(self, request: ReleaseRequest) -> None:
        if request.sandbox is not None:
            await self._sandboxing.release(request.sandbox)
