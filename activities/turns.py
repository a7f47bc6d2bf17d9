"""Slices of turns."""

from temporalio import activity

from activities.attempt import attempt
from schemas.slice import SliceReport, SliceRequest
from tiltyard.episode.slices import SliceRunner


class TurnActivities:
    """Runs the turns of episodes."""

    def __init__(self, runner: SliceRunner) -> None:
        self._runner = runner

    @activity.defn
    async def run_slice(self, request: SliceRequest) -> SliceReport:
        async with attempt() as attempt_id:
            return await self._runner.run(request, attempt_id)
