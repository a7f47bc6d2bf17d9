"""Slices as the workflow asks for them and as they report, to see what the wall-time budget is charged."""

import time
from dataclasses import dataclass, field
from datetime import timedelta

from temporalio import activity
from temporalio.worker import Worker

from schemas.slice import SliceReport, SliceRequest
from tests.workflow.arena import Arena
from workers.assembly import activities_of, worker_of

ROUNDING_S = 0.001
"""A report is exact to the millisecond."""


@dataclass
class NotedSlices:
    """``slices`` are those that reported: the request, the report, and how long that attempt took, in seconds."""

    slices: list[tuple[SliceRequest, SliceReport, float]] = field(default_factory=list)

    def worker(self, place: Arena) -> Worker:
        """A worker of the arena whose slices are noted. It ends as one that is lost: without grace."""
        given = {one.__name__: one for one in activities_of(place.parts, place.settings)}
        real = given.pop("run_slice")

        @activity.defn(name="run_slice")
        async def noted(request: SliceRequest) -> SliceReport:
            began = time.monotonic()
            report: SliceReport = await real(request)
            self.slices.append((request, report, time.monotonic() - began))
            return report

        return worker_of(place.client, [*given.values(), noted], place.queue, grace=timedelta())

    def assert_charged(self, wall_s: float) -> None:
        """What slices used is charged to the last bit, and nothing beside it; none used more than it took."""
        used_s = 0.0
        for request, report, took_s in self.slices:
            assert request.wall_left_s == wall_s - used_s
            assert report.used_s <= took_s + ROUNDING_S
            used_s += report.used_s
