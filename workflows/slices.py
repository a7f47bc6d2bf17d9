"""The slices of one episode, one after another, each where its sandbox is."""

from functools import partial

from temporalio import workflow

from activities.turns import TurnActivities
from schemas.slice import SliceReport, SliceRequest
from schemas.start import EpisodeStart
from workflows.hosts import HostLost, on_host
from workflows.options import slice_options
from workflows.sandbox import EpisodeSandbox


class EpisodeSlices:
    """``number`` is that of the next one in the whole chain of runs; whatever else writes the journal takes one."""

    def __init__(self, start: EpisodeStart, sandbox: EpisodeSandbox) -> None:
        self._tuning, self._sandbox = start.tuning, sandbox
        self.number = start.carried.slice_no if start.carried else 0
        self._first = self.number
        self._running: workflow.ActivityHandle[SliceReport] | None = None
        self._cancelled = False

    @property
    def many(self) -> bool:
        """Whether this run of the chain has had as many as it may."""
        return self.number - self._first >= self._tuning.slices_per_run

    def next_number(self) -> int:
        self.number += 1
        return self.number - 1

    def cancel(self) -> None:
        """Cancel the one under way, and those that begin from now on."""
        self._cancelled = True
        if self._running is not None:
            self._running.cancel()

    async def run(self, request: SliceRequest) -> SliceReport:
        """One slice, where the sandbox is. That its host is lost is reported by a slice elsewhere: it takes the
        journal from whatever may still run on that host, and does as the task says."""
        options = slice_options(request, self._tuning)
        if self._sandbox.place.state == "there":
            try:
                return await on_host(
                    self._sandbox.place.permit, self._tuning, options, partial(self._begin, request)
                )
            except HostLost:
                self._sandbox.lose()
        if self._sandbox.place.state == "lost":
            request = request.model_copy(update={"sandbox_lost": True, "host": ""})
        return await self._begin(request, options)

    def _begin(
        self, request: SliceRequest, options: workflow.ActivityConfig
    ) -> workflow.ActivityHandle[SliceReport]:
        numbered = request.model_copy(update={"slice_no": self.next_number()})
        self._running = workflow.start_activity_method(TurnActivities.run_slice, numbered, **options)
        if self._cancelled:
            self._running.cancel()
        return self._running
