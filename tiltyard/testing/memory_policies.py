"""Policies as plain functions, for tests."""

import inspect
from collections.abc import Awaitable, Callable, Mapping

from schemas.decision import Decision
from schemas.episode import EpisodeSpec
from schemas.task import Task
from schemas.view import View
from tiltyard.errors import BadPolicy
from tiltyard.ports import NONE_ENDED, Ended, OpenPolicy

Act = Callable[[View], Decision | Awaitable[Decision]]


class _Function:
    recording = None

    def __init__(self, act: Act) -> None:
        self._act = act

    async def act(self, view: View) -> Decision:
        decision = self._act(view)
        return await decision if inspect.isawaitable(decision) else decision

    async def close(self) -> None:
        return None


class MemoryPolicies:
    """Implements ``tiltyard.ports.Policies`` over functions of the view, by the policy's target.

    ``acted`` counts how often each episode's policy was asked, ``closed`` names the episodes closed, and
    ``ended`` is what each is said to have left.
    """

    def __init__(self, policies: Mapping[str, Act], ended: Ended = NONE_ENDED) -> None:
        self._policies = policies
        self._ended = ended
        self.acted: dict[str, int] = {}
        self.closed: list[str] = []

    async def open(self, episode_id: str, spec: EpisodeSpec, task: Task) -> OpenPolicy:
        if spec.policy.target not in self._policies:
            raise BadPolicy(f"there is no policy {spec.policy.target}", field="policy")
        act = self._policies[spec.policy.target]

        def counted(view: View) -> Decision | Awaitable[Decision]:
            self.acted[episode_id] = self.acted.get(episode_id, 0) + 1
            return act(view)

        return _Function(counted)

    async def close(self, episode_id: str) -> Ended:
        self.closed.append(episode_id)
        return self._ended
