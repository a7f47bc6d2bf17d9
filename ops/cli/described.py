"""A world as its tools and templates describe it."""

from collections.abc import Iterator
from typing import Any

from tiltyard.errors import BadInput
from tiltyard.worlds.builtin import with_engine_tools
from tiltyard.worlds.kit import WorldKind
from tiltyard.worlds.registry import worlds


def world(name: str) -> WorldKind:
    """A shipped world with the engine's own tools. Raises ``BadInput``."""
    known = worlds()
    if name not in known:
        raise BadInput(f"there is no world {name!r}", field="WORLD", fix=f"known worlds: {', '.join(known)}")
    return with_engine_tools(known[name])


def described(kind: WorldKind) -> dict[str, Any]:
    """The world as ``worlds describe --json`` prints it."""
    return {
        "name": kind.name,
        "description": kind.description,
        "templates": list(kind.templates),
        "jobs": sorted(kind.jobs),
        "tools": [
            {**one.spec.model_dump(mode="json"), "digest": one.spec.digest} for _, one in sorted(kind.tools.items())
        ],
    }


def tool_lines(kind: WorldKind) -> Iterator[str]:
    """Two lines a tool: how it is called, what that costs on the world's clock, whether it writes; what it does."""
    for name, one in sorted(kind.tools.items()):
        fields = one.arguments.model_fields.items()
        arguments = ", ".join(_argument(field, info.is_required()) for field, info in fields)
        yield f"\n{name}({arguments})  {one.spec.cost_s} s{', writes' if one.spec.writes else ''}"
        yield f"  {one.spec.description.splitlines()[0]}"


def _argument(name: str, required: bool) -> str:
    return name if required else f"[{name}]"
