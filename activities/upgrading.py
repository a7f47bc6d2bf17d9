"""Episodes that another version of the workflows' code began, and that no worker of it goes on with."""

from temporalio import activity

from activities.attempt import attempt, kept
from schemas.upgrade import Elsewhere, Stranded, UpgradeOrder, Upgrades
from tiltyard.ports import Chains, Versions


class UpgradeActivities:
    """Moves nothing while there is a worker that can go on with it."""

    def __init__(self, versions: Versions, chains: Chains) -> None:
        self._versions = versions
        self._chains = chains

    @activity.defn
    async def upgrade(self, order: UpgradeOrder) -> Upgrades:
        async with attempt():
            served = await self._versions.served()
            found = [one for one in order.elsewhere if one.version not in served]
            moved, stranded, terminated = list[str](), list[Stranded](), list[str]()
            problems = list[str]()
            for one in found:
                await kept(problems, self._deal_with(one, order, moved, stranded, terminated))
            return Upgrades(
                moved=tuple(moved),
                stranded=tuple(stranded),
                terminated=tuple(terminated),
                problems=tuple(problems),
            )

    async def _deal_with(
        self, one: Elsewhere, order: UpgradeOrder, moved: list[str], stranded: list[Stranded], terminated: list[str]
    ) -> None:
        reason = await self._versions.move(one.owner)
        waited_s = order.waited_s.get(one.episode_id, 0.0)
        if not reason:
            moved.append(one.episode_id)
        elif waited_s < order.limit_s:
            told = Stranded(episode_id=one.episode_id, version=one.version, reason=reason, waited_s=waited_s)
            stranded.append(told)
        else:
            why = f"no worker has the version {one.version} of its workflow's code, and ours cannot go on: {reason}"
            await self._chains.terminate(one.owner, why)
            terminated.append(one.owner.workflow_id)
