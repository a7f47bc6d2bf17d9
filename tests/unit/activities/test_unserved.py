"""What a pass of the janitor notes of episodes that no worker can go on with, and what becomes of them."""

from datetime import timedelta

from temporalio.testing import ActivityEnvironment

from activities.upgrading import UpgradeActivities
from activities.upkeep import MOST_UNSERVED, UpkeepActivities
from schemas.base import canonical
from schemas.episode import EpisodeSpec, PolicySpec, workflow_id
from schemas.status import SandboxHolding
from schemas.task import Limits
from schemas.upgrade import UpgradeOrder
from schemas.upkeep import InspectOrder, UpkeepOrder, UpkeepReport
from schemas.world import Owner
from tiltyard.episode.delivery import Reconciler
from tiltyard.errors import EnvironmentFailed
from tiltyard.ports import Chain, ChainState
from tiltyard.testing.local_world import LocalWorld
from tiltyard.testing.memory_records import MemoryRecords
from tiltyard.testing.memory_versions import MemoryVersions
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.worlds.engine import Engine

NOW = InspectOrder(order=UpkeepOrder(grace_s=0))


class Running:
    """Chains that all run, each for the version that its id begins with."""

    def __init__(self) -> None:
        self.terminated = dict[str, str]()

    async def describe(self, owner: Owner) -> Chain:
        return Chain(ChainState.RUNNING, version=owner.workflow_id.removeprefix(workflow_id("")).partition("-")[0])

    async def holding(self, owner: Owner) -> SandboxHolding | None:
        return None

    async def terminate(self, owner: Owner, reason: str) -> None:
        self.terminated[owner.workflow_id] = reason


async def inspected(versions: MemoryVersions | None, *episodes: str) -> UpkeepReport:
    """What one pass reports of these episodes, which all run."""
    records = MemoryRecords()
    await records.plan([_spec(episode) for episode in episodes])
    world = LocalWorld(Engine({}, MemoryWorlds()))
    reconciler = Reconciler(world, timedelta(seconds=1))
    upkeep = UpkeepActivities(world, reconciler, records, Running(), "here", "default", versions)
    report: UpkeepReport = await ActivityEnvironment().run(upkeep.inspect, NOW)
    return report


def _spec(episode_id: str) -> EpisodeSpec:
    return EpisodeSpec(
        episode_id=episode_id,
        task_id="tally/add/1",
        task_digest="sha256:0",
        world="tally",
        policy=PolicySpec(target="honest"),
        limits=Limits(),
    )


async def test_only_those_that_nobody_serves_are_reported() -> None:
    report = await inspected(MemoryVersions("new", {"old"}), "new-1", "old-1", "older-1", "older-2")
    assert [(one.episode_id, one.version) for one in report.elsewhere] == [
        ("older-1", "older"),
        ("older-2", "older"),
    ]
    assert report.problems == ()


async def test_a_worker_without_versions_reports_none() -> None:
    assert (await inspected(None, "old-1")).elsewhere == ()


async def test_of_many_a_pass_takes_some_and_says_how_many_it_leaves() -> None:
    report = await inspected(MemoryVersions("new"), *(f"old-{number:05}" for number in range(9_000)))
    assert len(report.elsewhere) == MOST_UNSERVED
    assert len(canonical(report)) < 200_000
    (problem,) = report.problems
    assert f"{9_000 - MOST_UNSERVED} more episodes" in problem


async def test_that_versions_cannot_be_told_holds_up_nothing_else() -> None:
    versions = MemoryVersions("new")
    versions.away = EnvironmentFailed("no answer")
    report = await inspected(versions, "old-1")
    assert report.elsewhere == ()
    assert report.problems == ("EnvironmentFailed: no answer",)


async def test_each_is_moved_or_waits_or_is_ended() -> None:
    refused = {workflow_id(f"old-{number}"): "a timer in its place" for number in (2, 3)}
    versions, chains = MemoryVersions("new", {"back"}, refused), Running()
    report = await inspected(MemoryVersions("new"), "old-1", "old-2", "old-3", "back-1")
    order = UpgradeOrder(elsewhere=report.elsewhere, waited_s={"old-2": 5, "old-3": 10}, limit_s=10)
    done = await ActivityEnvironment().run(UpgradeActivities(versions, chains).upgrade, order)
    assert done.moved == ("old-1",)
    assert versions.moved == [workflow_id("old-1")]
    assert [(one.episode_id, one.waited_s) for one in done.stranded] == [("old-2", 5)]
    assert list(done.terminated) == list(chains.terminated) == [workflow_id("old-3")]
    assert "a timer in its place" in chains.terminated[workflow_id("old-3")]
