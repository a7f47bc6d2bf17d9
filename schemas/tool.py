"""A tool as policies see it: one schema for prompting, parsing and calling."""

from schemas.base import JsonObject, Model, digest_of
from schemas.span import VirtualS


class ToolSpec(Model):
    """One tool of a world.

    ``parameters`` is the JSON schema of its arguments. ``cost_s`` is how far a call moves the world's clock,
    in virtual seconds. A tool with ``writes`` takes an optional ``operation_id``.
    """

    name: str
    description: str
    parameters: JsonObject
    writes: bool = False
    cost_s: VirtualS = 1

    @property
    def digest(self) -> str:
        return digest_of(self)


def tools_digest(tools: tuple[ToolSpec, ...]) -> str:
    """Digest of a set of tools, independent of their order; stored with every result (I12)."""
    return digest_of(sorted(tool.digest for tool in tools))
