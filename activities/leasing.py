"""Leases of namespaces: taken before the turns, given back after the drain."""

from temporalio import activity

from activities.attempt import attempt
from schemas.slice import LeaseRef, ReleaseRequest
from schemas.start import LeaseOrder
from tiltyard.episode.leasing import Leasing


class LeaseActivities:
    """Leases, recycles and quarantines namespaces."""

    def __init__(self, leasing: Leasing) -> None:
        self._leasing = leasing

    @activity.defn
    async def lease(self, order: LeaseOrder) -> LeaseRef:
        async with attempt():
            return await self._leasing.lease(order, activity.info().workflow_id or "")

    @activity.defn
    async def release(self, request: ReleaseRequest) -> bool:
        """True when the namespace can be used again."""
        async with attempt():
            return await self._leasing.release(request)
