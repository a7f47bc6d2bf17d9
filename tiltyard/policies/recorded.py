"""The policy ``recorded``: it decides what its recording says, whatever it is shown; how recordings are kept."""

from pydantic import ValidationError

from schemas.base import canonical
from schemas.decision import Decision
from schemas.episode import EpisodeSpec
from schemas.recording import RECORDED, Recording
from schemas.task import Task
from schemas.view import View
from tiltyard.errors import EnvironmentFailed, InputMissing, ObjectsUnreachable, RecordingEnded
from tiltyard.ports import Ended, Objects, OpenPolicy, Policies


class RecordedPolicy:
    """Plays a recording. Whoever runs its turns ends them with ``recording.ending`` where no decision is left."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    async def act(self, view: View) -> Decision:
        """The decision of this turn. Raises ``RecordingEnded`` past the last one."""
        if view.turn >= len(self.recording.decisions):
            raise RecordingEnded(f"the recording has {len(self.recording.decisions)} decisions")
        return self.recording.decisions[view.turn]

    async def close(self) -> None:
        return None


class PoliciesAndRecordings:
    """Implements ``tiltyard.ports.Policies``: recordings from the objects, any other policy from ``others``."""

    def __init__(self, others: Policies, objects: Objects) -> None:
        self._others, self._objects = others, objects

    async def open(self, episode_id: str, spec: EpisodeSpec, task: Task) -> OpenPolicy:
        """Raises as ``others`` do, and ``InputMissing`` for a recording that is not there or damaged."""
        if spec.policy.target != RECORDED:
            return await self._others.open(episode_id, spec, task)
        return RecordedPolicy(await load(self._objects, spec.policy.digest))

    async def close(self, episode_id: str) -> Ended:
        return await self._others.close(episode_id)


async def keep(objects: Objects, recording: Recording) -> str:
    """The name of the object that holds it; equal recordings have the same."""
    return await objects.put(canonical(recording))


async def load(objects: Objects, name: str) -> Recording:
    """What ``keep`` named so. Raises ``InputMissing`` where that is gone, damaged or of another kind, and
    ``ObjectsUnreachable``."""
    try:
        return Recording.model_validate_json(await objects.get(name))
    except ObjectsUnreachable:
        raise
    except EnvironmentFailed as error:
        raise InputMissing(f"the recording {name}", str(error)) from error
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"])) or "the whole"
        raise InputMissing(f"the recording {name}", f"{where}: {problem['msg']}") from None
