"""The tools that the engine gives to every world."""

from dataclasses import replace
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from schemas.base import JsonObject
from schemas.span import LONGEST_S
from tiltyard.errors import BadInput, Refused
from tiltyard.worlds.kit import WorldKind, tool
from tiltyard.worlds.state import DraftState


@tool(cost_s=0)
def wait(
    state: DraftState,
    seconds: Annotated[int, Field(ge=1, le=LONGEST_S, description="How long to wait, in seconds.")],
) -> int:
    """Wait. Time passes, and whatever falls due meanwhile happens."""
    return seconds  # the engine moves the clock by it, in transactions of their own


@tool()
def get_receipt(
    state: DraftState,
    operation_id: Annotated[
        str, Field(min_length=1, max_length=200, description="The operation_id that you gave to an earlier call.")
    ],
) -> JsonObject:
    """Look up whether an operation was accepted, by the operation_id that it was sent under."""
    receipt = state.receipt(operation_id)
    if receipt is None:
        raise Refused(f"no operation {operation_id!r} has been accepted", code="not_found")
    return {
        "operation_id": receipt.operation_id,
        "tool": receipt.tool,
        "accepted_at_s": receipt.at_s,
        "result": receipt.result,
    }


ENGINE_TOOLS = MappingProxyType({one.spec.name: one for one in (wait, get_receipt)})


def with_engine_tools(kind: WorldKind) -> WorldKind:
    """The world with the engine's tools. Raises ``BadInput`` when it has tools of those names itself."""
    for name in sorted(ENGINE_TOOLS.keys() & kind.tools.keys()):
        raise BadInput(f"the world {kind.name} has a tool {name} of its own", field="tools", fix="rename it")
    return replace(kind, tools=MappingProxyType({**kind.tools, **ENGINE_TOOLS}))
