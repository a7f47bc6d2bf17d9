"""What an import made of somebody else's tasks, and what is known to be wrong with them."""

from schemas.base import Model
from schemas.world import TemplateRef


class FailingStep(Model):
    """A step of a task's own reference that the world refuses. ``step`` counts from 1."""

    step: int
    tool: str
    code: str
    message: str


class ImportedTask(Model):
    """One imported task.

    ``idle_passes``: doing nothing passes by the source's own criteria. ``unscorable``: why no trial of it can be
    judged; empty when it can. ``no_call``: its reference calls no tool. ``ungraded`` counts the source's criteria
    in words, which nothing here judges.
    """

    id: str
    failing_steps: tuple[FailingStep, ...] = ()
    idle_passes: bool = False
    unscorable: str = ""
    no_call: bool = False
    ungraded: int = 0


class ImportReport(Model):
    """All tasks of one import, in the source's order. ``family`` is ``WORLD/FAMILY``."""

    source: str
    family: str
    template: TemplateRef
    tasks: tuple[ImportedTask, ...]

    @property
    def with_failing_steps(self) -> tuple[ImportedTask, ...]:
        return tuple(task for task in self.tasks if task.failing_steps)

    @property
    def unscorable(self) -> tuple[ImportedTask, ...]:
        return tuple(task for task in self.tasks if task.unscorable)

    @property
    def idle_passes(self) -> tuple[ImportedTask, ...]:
        """Those that can be judged, and that doing nothing passes in their source."""
        return tuple(task for task in self.tasks if task.idle_passes and not task.unscorable)

    @property
    def no_call(self) -> tuple[ImportedTask, ...]:
        """Those that can be judged, and whose reference calls no tool."""
        return tuple(task for task in self.tasks if task.no_call and not task.unscorable)

    @property
    def counted(self) -> int:
        """Tasks that count with all others."""
        return len(self.tasks) - len(self.unscorable) - len(self.idle_passes)
