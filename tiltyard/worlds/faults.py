"""Planned faults: which one fires, and what the agent is shown of it."""

from collections.abc import Sequence

from schemas.fault import Fault
from schemas.world import Shown
from tiltyard.worlds.draft import Draft
from tiltyard.worlds.rows import FAULTS, Cause

TIMEOUT = Shown(status="timeout", message="no reply arrived in time")


def draw(draft: Draft, cause: Cause) -> Fault | None:
    """Count a logical call of the tool, and give the fault that its plan has for it."""
    counted = draft.load(FAULTS, cause.tool)
    nth = counted + 1 if isinstance(counted, int) else 1
    draft.save(cause, FAULTS, cause.tool, nth)
    return planned(draft.request.faults, cause.tool, nth, draft.now_s)


def planned(plan: Sequence[Fault], tool: str, nth: int, now_s: int) -> Fault | None:
    """The first row of the plan that matches."""
    return next((fault for fault in plan if _matches(fault, tool, nth, now_s)), None)


def _matches(fault: Fault, tool: str, nth: int, now_s: int) -> bool:
    return (
        fault.tool == tool
        and fault.nth in (None, nth)
        and fault.from_s <= now_s
        and (fault.until_s is None or now_s < fault.until_s)
    )


def shown_instead(fault: Fault | None) -> Shown | None:
    """What the agent is shown in place of a call that this fault keeps from happening."""
    if fault is not None and fault.kind == "drop_before_commit":
        return TIMEOUT
    if fault is not None and fault.kind == "error_status":
        return Shown(status="error", code=fault.code, message=fault.message)
    return None


def shown_after(fault: Fault | None, shown: Shown) -> Shown:
    """What the agent is shown of a call that has happened."""
    return TIMEOUT if fault is not None and fault.kind == "commit_then_drop" else shown


def delay_s(fault: Fault | None) -> int:
    """How much further the clock moves, in seconds."""
    return fault.delay_s if fault is not None and fault.kind == "delay" else 0
