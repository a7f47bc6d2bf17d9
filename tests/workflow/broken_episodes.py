"""Episode workflows with faults of their own. They stand in a module of their own, which the sandbox imports."""

from datetime import timedelta

from temporalio import workflow

from schemas.slice import Ending, Summary
from schemas.start import EpisodeStart
from workflows.episode import EpisodeWorkflow


@workflow.defn(name="Episode")
class BrokenEpisode(EpisodeWorkflow):
    """An episode with a bug in its own code: a plain exception, which Temporal would try again for ever."""

    @workflow.init
    def __init__(self, start: EpisodeStart) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: EpisodeStart) -> Summary:
        return await super().run(start)

    async def _run_turns(self) -> Ending:
        raise ValueError("a bug of the workflow")


@workflow.defn(name="Episode")
class OtherEpisode(EpisodeWorkflow):
    """Replays no history of ``EpisodeWorkflow``: nondeterminism, as a careless change would make it."""

    @workflow.init
    def __init__(self, start: EpisodeStart) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: EpisodeStart) -> Summary:
        await workflow.sleep(timedelta(days=1))
        return await super().run(start)
