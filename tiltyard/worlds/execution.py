"""The first execution of a delivery, within one transaction."""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import BaseModel

from schemas.base import JsonValue, canonical
from schemas.fault import Fault
from schemas.span import CLOCK_END_S
from schemas.world import TOO_MANY_JOBS, DeliveryReply, DeliveryRequest, Receipt, Shown
from tiltyard.errors import BadInput, Refused
from tiltyard.worlds import faults
from tiltyard.worlds.arguments import OPERATION_ID, arguments_digest, operation_of, parse, values
from tiltyard.worlds.builtin import wait
from tiltyard.worlds.clock import MAX_JOBS, Clock, made_up_s
from tiltyard.worlds.draft import Draft
from tiltyard.worlds.kit import Tool, WorldKind
from tiltyard.worlds.rows import RECEIPTS, Cause, decoded
from tiltyard.worlds.state import DraftState
from tiltyard.worlds.store import OpenWait

log = logging.getLogger(__name__)

STANDS_STILL = Shown(
    status="error",
    code=TOO_MANY_JOBS,
    message=f"more than {MAX_JOBS} background jobs fell due; time stands still until you call again",
)


class Executed(NamedTuple):
    """A delivery that has run, or a ``wait`` that has been opened."""

    reply: DeliveryReply | None
    wait: OpenWait | None


def execute(draft: Draft, kind: WorldKind, request: DeliveryRequest) -> Executed:
    """Run a delivery on the draft. Whatever the agent sent, the outcome is one that can be recorded."""
    first, cause = draft.position + 1, cause_of(request)
    tools = _allowed(draft, kind, request)
    tool = tools.get(request.tool)
    if tool is None:
        return Executed(reply_of(draft, cause, first, _unknown_tool(tools, request.tool), None), None)
    clock = Clock(draft, kind.jobs)
    if not clock.catch_up(request.elsewhere_s, cause):
        return Executed(reply_of(draft, cause, first, STANDS_STILL, None), None)
    fault = faults.draw(draft, cause)
    if not clock.advance(draft.now_s + tool.spec.cost_s, cause):
        return Executed(reply_of(draft, cause, first, STANDS_STILL, fault), None)
    shown = faults.shown_instead(fault) or _call(draft, kind, tool, cause, request)
    if isinstance(shown, int):
        return Executed(None, _open_wait(draft, first, shown, fault))
    clock.advance(draft.now_s + faults.delay_s(fault), cause)
    return Executed(reply_of(draft, cause, first, shown, fault), None)


def cause_of(request: DeliveryRequest) -> Cause:
    operation_id = request.arguments.get(OPERATION_ID)
    return Cause(
        "delivery", request.delivery_id, request.tool, operation_id if isinstance(operation_id, str) else None
    )


def reply_of(draft: Draft, cause: Cause, first: int, shown: Shown, fault: Fault | None) -> DeliveryReply:
    """The reply to record, with the planned fault's say on what is shown."""
    return DeliveryReply(
        delivery_id=cause.id,
        shown=faults.shown_after(fault, shown),
        committed=draft.changed_by(cause),
        first=first,
        last=draft.position,
        fault=fault.kind if fault else "",
        now_s=draft.now_s,
        elsewhere_s=made_up_s(draft),
    )


def _allowed(draft: Draft, kind: WorldKind, request: DeliveryRequest) -> Mapping[str, Tool]:
    """The tools of whoever calls: the agent, or a program in its sandbox."""
    if request.incarnation:
        return {name: kind.tools[name] for name in draft.request.inside_tools}
    return {
        name: tool for name, tool in kind.tools.items() if not draft.request.tools or name in draft.request.tools
    }


def _unknown_tool(tools: Mapping[str, Tool], name: str) -> Shown:
    known = ", ".join(sorted(tools)) or "none"
    message = f"tool: there is no tool {name[:100]!r}; use one of {known}"
    return Shown(status="error", code="unknown_tool", message=message)


def _open_wait(draft: Draft, first: int, seconds: int, fault: Fault | None) -> OpenWait:
    now_s = draft.now_s
    target_s = now_s + seconds + faults.delay_s(fault)
    return OpenWait(started_at_s=now_s, target_s=target_s, first=first, fault=fault.kind if fault else "")


def _call(draft: Draft, kind: WorldKind, tool: Tool, cause: Cause, request: DeliveryRequest) -> Shown | int:
    """What the tool answers; for ``wait`` the seconds to wait."""
    parsed = parse(tool, request.arguments)
    if isinstance(parsed, Shown):
        return parsed
    state = DraftState(draft, cause, kind.jobs)
    if tool is wait:
        return _seconds(draft, **values(tool, parsed))
    operation_id = operation_of(tool, parsed)
    earlier = state.receipt(operation_id) if operation_id else None
    if earlier is not None:
        return _again(earlier, tool, parsed)
    shown = _run(draft, tool, state, parsed)
    if operation_id and shown.status == "ok":
        _keep_receipt(draft, cause, tool, parsed, operation_id, shown.content)
    return shown


def _seconds(draft: Draft, seconds: int) -> Shown | int:
    """How long to wait, unless the clock ends before."""
    left_s = CLOCK_END_S - draft.now_s
    if seconds <= left_s:
        return seconds
    message = f"seconds: the world's clock ends at {CLOCK_END_S} s; wait at most {left_s} more, or give up"
    return Shown(status="error", code="bad_arguments", message=message)


def _again(earlier: Receipt, tool: Tool, parsed: BaseModel) -> Shown:
    if earlier.arguments_digest == arguments_digest(tool, parsed):
        return Shown(status="ok", content=earlier.result)
    message = (
        f"operation_id: {earlier.operation_id!r} was accepted for another call of {earlier.tool}; "
        "choose a new one for a new operation"
    )
    return Shown(status="error", code="operation_id_conflict", message=message)


def _run(draft: Draft, tool: Tool, state: DraftState, parsed: BaseModel) -> Shown:
    mark = draft.mark()
    try:
        return Shown(status="ok", content=decoded(canonical(tool.run(state, **values(tool, parsed)))))
    except Refused as refusal:
        draft.rollback(mark)
        return Shown(status="error", code=refusal.code, message=refusal.message)
    except BadInput as error:
        draft.rollback(mark)
        return Shown(status="error", code="bad_arguments", message=str(error))
    except Exception:
        # A tool is the world author's code; its bug is an outcome like any other and never crashes the server.
        draft.rollback(mark)
        log.exception("the tool %s failed", tool.spec.name)
        return Shown(status="error", code="tool_failed", message=f"{tool.spec.name} failed; nothing was changed")


def _keep_receipt(
    draft: Draft, cause: Cause, tool: Tool, parsed: BaseModel, operation_id: str, result: JsonValue
) -> None:
    receipt = Receipt(
        operation_id=operation_id,
        tool=tool.spec.name,
        arguments_digest=arguments_digest(tool, parsed),
        delivery_id=cause.id,
        at_s=draft.now_s,
        result=result,
    )
    draft.save(cause, RECEIPTS, operation_id, receipt)
