"""The driver of the ``Policies`` port: shipped scripts here, everybody else's in a child of their own."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from infra.policies.child import Launch
from infra.policies.children import Children
from infra.policies.outside import OutsidePolicy
from infra.policies.target import CheckScript, folder, parse
from schemas.base import canonical
from schemas.decision import Decision
from schemas.episode import EpisodeSpec
from schemas.task import Task
from schemas.view import View
from tiltyard.errors import PolicyFailed
from tiltyard.ports import Ended, OpenPolicy, Policy

__all__ = ["PolicyDriver"]

OpenScript = Callable[[str, Task], Policy]


class PolicyDriver:
    """Implements ``tiltyard.ports.Policies``. Call ``aclose`` when the worker has shut down.

    ``open_script`` and ``check_script`` are the shipped scripts' catalogue. ``search_path`` is the PATH of child
    processes. ``idle`` is how long a child may live unasked. ``adopts``: this process has no other children, so any
    that it did not start is an orphan of a policy, and is ended.
    """

    def __init__(
        self,
        open_script: OpenScript,
        check_script: CheckScript,
        search_path: str = os.defpath,
        idle: timedelta = timedelta(seconds=60),
        *,
        adopts: bool = False,
    ) -> None:
        self._open_script, self._check_script = open_script, check_script
        self._search_path = search_path
        self._children = Children(idle, adopts=adopts)

    async def open(self, episode_id: str, spec: EpisodeSpec, task: Task) -> OpenPolicy:
        """Raises ``BadPolicy``, and ``EnvironmentFailed`` when the machine cannot start a process."""
        target = parse(spec.policy.target, self._check_script)
        if target.kind == "script":
            return ScriptInProcess(self._open_script(spec.policy.target, task))
        directory = folder(spec.policy.directory)
        launch = Launch((target.kind, *target.words), directory, self._search_path)
        self._children.ensure(episode_id, launch)
        return OutsidePolicy(episode_id, launch, timedelta(seconds=task.limits.turn_s), self._children)

    async def close(self, episode_id: str) -> Ended:
        return await self._children.end(episode_id)

    async def aclose(self) -> None:
        """End every child. Never takes more than a few seconds, whatever the policies do."""
        await self._children.aclose()


@dataclass(frozen=True)
class ScriptInProcess:
    """A shipped script. It is trusted, and still cannot crash an episode."""

    script: Policy
    recording = None

    async def act(self, view: View) -> Decision:
        try:
            decision = await self.script.act(view)
            canonical(decision)
        except PolicyFailed:
            raise
        except Exception as error:
            raise PolicyFailed(f"the policy raised {type(error).__name__}: {error}") from error
        return decision

    async def close(self) -> None:
        return None
