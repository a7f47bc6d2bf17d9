"""Tasks by digest. A task is stored as an object when a trial is planned, so that every part of the episode
reads the same one, whatever becomes of its file."""

from collections import OrderedDict

from schemas.base import canonical
from schemas.task import Task
from tiltyard.ports import Objects

KEPT = 64
"""Tasks that one shelf keeps in memory."""


class TaskShelf:
    """Stores and loads tasks; the newest stay in memory."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._kept: OrderedDict[str, Task] = OrderedDict()

    async def store(self, task: Task) -> str:
        """The task's digest, under which it can be loaded."""
        return await self._objects.put(canonical(task))

    async def load(self, digest: str) -> Task:
        """Raises ``EnvironmentFailed`` when the task is missing or damaged."""
        if digest not in self._kept:
            self._kept[digest] = Task.model_validate_json(await self._objects.get(digest))
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(digest)
        return self._kept[digest]
