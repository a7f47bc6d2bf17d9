"""How a task counts: imported tasks say in their metadata what is wrong with the way they are graded."""

from enum import StrEnum

from schemas.task import Task

IDLE_PASSES = "idle_passes"
"""Metadata: true where doing nothing passes by the source's own criteria."""

UNSCORABLE = "unscorable"
"""Metadata: why no trial of the task can be judged."""

NO_CALL = "no_call"
"""Metadata: true where the source's own reference calls no tool, and so scores nothing for its process."""


class Standing(StrEnum):
    """Where a trial of a task goes: into the figures, beside them, or nowhere."""

    COUNTED = "counted"
    IDLE_PASSES = IDLE_PASSES
    UNSCORABLE = UNSCORABLE


def standing(task: Task) -> Standing:
    """The task's standing; one that cannot be judged is that before all else."""
    if why_unscorable(task):
        return Standing.UNSCORABLE
    return Standing.IDLE_PASSES if task.metadata.get(IDLE_PASSES) is True else Standing.COUNTED


def why_unscorable(task: Task) -> str:
    """Why no trial of the task can be judged; empty when it can."""
    why = task.metadata.get(UNSCORABLE)
    return why if isinstance(why, str) else ""
