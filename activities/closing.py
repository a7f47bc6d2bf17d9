"""The end of an episode: settle, seal, drain, collect; grade and record."""

from temporalio import activity

from activities.attempt import attempt, require_host
from schemas.slice import CloseReport, CloseRequest, GradeRequest, Summary
from tiltyard.episode.closing import Closer
from tiltyard.episode.grading import Examiner


class ClosingActivities:
    """Closes episodes and grades what is left, on ``host``."""

    def __init__(self, closer: Closer, examiner: Examiner, host: str) -> None:
        self._closer = closer
        self._examiner = examiner
        self._host = host

    @activity.defn
    async def close(self, request: CloseRequest) -> CloseReport:
        require_host(request.host, self._host)
        async with attempt():
            return await self._closer.close(request)

    @activity.defn
    async def grade(self, request: GradeRequest) -> Summary:
        async with attempt():
            info = activity.info()
            return await self._examiner.grade(request, info.workflow_id or "", info.attempt)
