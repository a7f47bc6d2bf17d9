"""Arguments of a call: parsed with the tool's own model, and explained when they are wrong (I11)."""

from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from schemas.base import JsonObject, canonical, digest_of
from schemas.world import Shown
from tiltyard.errors import BadInput
from tiltyard.worlds.kit import Tool

SHOWN_PROBLEMS = 5

MAX_QUOTED = 200
"""Characters of what an agent sent that an error message repeats."""

OPERATION_ID = "operation_id"

ARGUMENTS: TypeAdapter[JsonObject] = TypeAdapter(JsonObject)


def wire_form(arguments: JsonObject) -> bytes:
    """Arguments as canonical JSON. Raises ``BadInput`` for what could not be read back from it."""
    try:
        body = canonical(arguments)
        ARGUMENTS.validate_json(body)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            "they cannot be sent as JSON",
            field="arguments",
            fix="leave out numbers of thousands of digits, hundreds of levels and half characters (surrogates)",
        ) from error
    return body


def parse(tool: Tool, arguments: JsonObject) -> BaseModel | Shown:
    """The arguments as the tool's model, or the error that the agent is shown."""
    try:
        return tool.arguments.model_validate_json(canonical(arguments))
    except ValidationError as error:
        problems = [_problem(tool, found) for found in error.errors(include_url=False, include_context=False)]
    listed = "; ".join(problems[:SHOWN_PROBLEMS])
    more = f"; and {len(problems) - SHOWN_PROBLEMS} more" if len(problems) > SHOWN_PROBLEMS else ""
    return Shown(status="error", code="bad_arguments", message=f"{listed}{more} ({signature(tool)})")


def _problem(tool: Tool, found: Any) -> str:
    field = ".".join(str(part)[:100] for part in found["loc"])[:MAX_QUOTED] or "arguments"
    if found["type"] == "missing":
        return f"{field}: missing; give it"
    if found["type"] == "extra_forbidden":
        return f"{field}: {tool.spec.name} has no such argument; leave it out"
    return f"{field}: {found['msg'][:MAX_QUOTED]}"


def signature(tool: Tool) -> str:
    """What a tool takes, in a line: the way to mend a wrong call."""
    properties = tool.spec.parameters.get("properties")
    required = tool.spec.parameters.get("required")
    needed = required if isinstance(required, list) else []
    names = properties if isinstance(properties, dict) else {}
    takes = ", ".join(name if name in needed else f"{name} (optional)" for name in names)
    return f"{tool.spec.name} takes {takes or 'no arguments'}"


def values(tool: Tool, parsed: BaseModel) -> dict[str, Any]:
    """What the tool's function is called with: all but the operation id of a tool that writes."""
    withheld = OPERATION_ID if tool.spec.writes else ""
    return {name: getattr(parsed, name) for name in type(parsed).model_fields if name != withheld}


def operation_of(tool: Tool, parsed: BaseModel) -> str | None:
    """The agent's own name for this call, if the tool takes one and it gave one."""
    found = getattr(parsed, OPERATION_ID, None) if tool.spec.writes else None
    return found if isinstance(found, str) else None


def arguments_digest(tool: Tool, parsed: BaseModel) -> str:
    """Digest of tool and arguments without the operation id: equal ones are the same operation."""
    return _digest(tool.spec.name, parsed.model_dump(mode="json"))


def sent_digest(name: str, tool: Tool | None, arguments: JsonObject) -> str:
    """``arguments_digest`` of a call as it was sent; what the tool does not take counts as it stands."""
    parsed = parse(tool, arguments) if tool is not None else None
    if tool is None or parsed is None or isinstance(parsed, Shown):
        return _digest(name, arguments)
    return arguments_digest(tool, parsed)


def _digest(name: str, arguments: JsonObject) -> str:
    return digest_of([name, {key: value for key, value in arguments.items() if key != OPERATION_ID}])
