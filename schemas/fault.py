"""Faults that a task plans. They are part of the task, not of the weather: the same in every run."""

from typing import Literal, Self

from pydantic import Field, model_validator

from schemas.base import Model
from schemas.span import VirtualS

FaultKind = Literal["commit_then_drop", "drop_before_commit", "delay", "error_status"]


class Fault(Model):
    """One row of a fault plan, matched by tool, logical call and virtual time; the first match fires.

    ``nth`` counts this tool's logical calls from 1 (harness retries do not count); ``None`` is every call.
    ``from_s`` and ``until_s`` bound the virtual time since the episode's start, the end exclusive.

    * ``commit_then_drop``: the effect happens, the agent is shown a timeout.
    * ``drop_before_commit``: nothing happens, the agent is shown a timeout.
    * ``delay``: the effect happens and the clock moves ``delay_s`` further before the reply.
    * ``error_status``: nothing happens, the agent is shown ``code`` and ``message``.
    """

    tool: str
    kind: FaultKind
    nth: int | None = Field(default=None, ge=1, le=1_000_000)
    from_s: VirtualS = 0
    until_s: VirtualS | None = None
    delay_s: VirtualS = 0
    code: str = "unavailable"
    message: str = "the service is unavailable"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.kind == "delay" and self.delay_s == 0:
            raise ValueError("delay_s: a delay needs a positive number of seconds")
        if self.until_s is not None and self.until_s <= self.from_s:
            raise ValueError("until_s: must be greater than from_s")
        return self
