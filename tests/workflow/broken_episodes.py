"""Episode workflows with faults of their own. They stand in a module of their own, which the sandbox imports."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import VersioningBehavior

from schemas.slice import Ending, Summary
from schemas.start import EpisodeStart
from workflows.episode import EpisodeWorkflow


@workflow.defn(name="Episode", versioning_behavior=VersioningBehavior.PINNED)
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


@workflow.defn(name="Episode", versioning_behavior=VersioningBehavior.PINNED)
class OtherEpisode(EpisodeWorkflow):
    """Replays no history of ``EpisodeWorkflow``: nondeterminism, as a careless change would make it."""

    @workflow.init
    def __init__(self, start: EpisodeStart) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: EpisodeStart) -> Summary:
        await workflow.sleep(timedelta(days=1))
        return await super().run(start)


@workflow.defn(name="Episode", versioning_behavior=VersioningBehavior.PINNED)
class LaterEpisode(EpisodeWorkflow):
    """A careless change: it does something first. It plays new episodes well, and can go on with no old one."""

    @workflow.init
    def __init__(self, start: EpisodeStart) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: EpisodeStart) -> Summary:
        await workflow.sleep(timedelta(milliseconds=1))
        return await super().run(start)


@workflow.defn(name="Episode", versioning_behavior=VersioningBehavior.PINNED)
class PatchedEpisode(EpisodeWorkflow):
    """The same change with care: it can go on with old episodes, which do without."""

    @workflow.init
    def __init__(self, start: EpisodeStart) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: EpisodeStart) -> Summary:
        if workflow.patched("a nap first"):
            await workflow.sleep(timedelta(milliseconds=1))
        return await super().run(start)


@workflow.defn(name="Episode", versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class UnpinnedEpisode(EpisodeWorkflow):
    """An episode that goes with the current version, whichever that is."""

    @workflow.init
    def __init__(self, start: EpisodeStart) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: EpisodeStart) -> Summary:
        return await super().run(start)


@workflow.defn(name="Episode", versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class UnpinnedLaterEpisode(LaterEpisode):
    """The careless change of such a one."""

    @workflow.init
    def __init__(self, start: EpisodeStart) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: EpisodeStart) -> Summary:
        return await super().run(start)


@workflow.defn(name="Episode", versioning_behavior=VersioningBehavior.PINNED)
class StuckEpisode(EpisodeWorkflow):
    """An episode with a bug in its end: its task fails again and again, and nothing is given back."""

    @workflow.init
    def __init__(self, start: EpisodeStart) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: EpisodeStart) -> Summary:
        return await super().run(start)

    async def _finish(self, ending: Ending) -> Summary:
        raise ValueError("a bug of the workflow")
