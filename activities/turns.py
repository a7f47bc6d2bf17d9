"""Slices of turns."""

from temporalio import activity

from activities.attempt import attempt, require_host
from schemas.slice import SliceReport, SliceRequest
from tiltyard.episode.slices import SliceRunner


class TurnActivities:
    """Runs the turns of episodes, on ``host``."""

    def __init__(self, runner: SliceRunner, host: str) -> None:
        self._runner = runner
        self._host = host

    @activity.defn
    async def run_slice(self, request: SliceRequest) -> SliceReport:
        require_host(request.host, self._host)
        async with attempt() as attempt_id:
            return await self._runner.run(request, attempt_id)
