"""A world as its tools and templates describe it."""

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


def tool_rows(kind: WorldKind) -> list[tuple[str, ...]]:
    """One row a tool: name, whether it writes, its cost on the world's clock, arguments, first line of its text."""
    return [
        (
            name,
            "yes" if one.spec.writes else "",
            f"{one.spec.cost_s} s",
            ", ".join(_argument(field, info.is_required()) for field, info in one.arguments.model_fields.items()),
            one.spec.description.splitlines()[0],
        )
        for name, one in sorted(kind.tools.items())
    ]


def _argument(name: str, required: bool) -> str:
    return name if required else f"[{name}]"
