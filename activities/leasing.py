"""Namespaces and sandboxes: taken before the turns, given back after the drain."""

import asyncio

from temporalio import activity

from activities.attempt import attempt, require_host
from activities.hosting import Permits
from schemas.slice import GivenUp, GiveUpRequest, LeaseRef, ReleaseRequest
from schemas.start import LeaseOrder, Provisioned, ProvisionOrder
from tiltyard.episode.giving_up import GivingUp
from tiltyard.episode.leasing import Leasing
from tiltyard.episode.sandboxing import Sandboxing


class LeaseActivities:
    """Leases, recycles and quarantines namespaces; provisions, gives up and discards sandboxes, on ``host``."""

    def __init__(
        self, leasing: Leasing, sandboxing: Sandboxing, giving_up: GivingUp, host: str, permits: Permits
    ) -> None:
        self._leasing = leasing
        self._sandboxing = sandboxing
        self._giving_up = giving_up
        self._host, self._permits = host, permits

    @activity.defn
    async def lease(self, order: LeaseOrder) -> LeaseRef:
        async with attempt():
            return await self._leasing.lease(order, activity.info().workflow_id or "")

    @activity.defn
    async def provision(self, order: ProvisionOrder) -> Provisioned:
        require_host(order.host, self._host)
        async with attempt():
            try:
                return await self._sandboxing.provision(order, activity.info().workflow_id or "")
            finally:
                self._permits.redeem(order.spec.episode_id)

    @activity.defn
    async def give_up(self, request: GiveUpRequest) -> GivenUp:
        require_host(request.host, self._host)
        async with attempt() as attempt_id:
            return await self._giving_up.give_up(request, attempt_id)

    @activity.defn
    async def release(self, request: ReleaseRequest) -> bool:
        """True when the namespace can be used again. Neither of the two waits for the other."""
        require_host(request.host, self._host)
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
