"""Checks of the calls that a reference makes of its sandbox: what any sandbox would refuse is found without one."""

from collections.abc import Collection, Iterator

from pydantic import ValidationError

from schemas.base import JsonObject
from schemas.sandbox import SandboxLimits
from tiltyard.errors import BadInput
from tiltyard.sandbox.tools import request_for
from tiltyard.worlds.kit import Tool


def refused(tool: Tool, arguments: JsonObject, late: Collection[str], limits: SandboxLimits) -> Iterator[BadInput]:
    """What is wrong with the arguments of a call, each by its name; those that are ``late`` only a run can tell."""
    fields = tool.arguments.model_fields
    optional = {name for name in late if name in fields and not fields[name].is_required()}
    known = {name: value for name, value in arguments.items() if name not in optional}
    try:
        request_for(tool, tool.arguments.model_validate(known), "checked", limits)
    except BadInput as error:
        if error.field not in late:
            yield error
    except ValidationError:
        return  # of these arguments the tool's own schema has told already
    timeout_s = known.get("timeout_s")
    if isinstance(timeout_s, int | float) and timeout_s > limits.command_s:
        what = f"is {timeout_s:g}; sandbox.limits.command_s is {limits.command_s:g}"
        yield BadInput(what, field="timeout_s", fix="make it shorter, or command_s longer")
