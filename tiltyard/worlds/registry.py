"""The worlds that are shipped, loaded when they are first asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from tiltyard.worlds.kit import WorldKind

SHIPPED = {
    "code-repair": "tiltyard.worlds.code_repair.world",
    "replacement": "tiltyard.worlds.replacement.world",
    "retail": "tiltyard.worlds.retail.world",
}
"""World → the module whose ``WORLD`` it is."""


class ShippedWorlds(Mapping[str, WorldKind]):
    """Shipped worlds by name. Listing the names loads none of them."""

    def __getitem__(self, name: str) -> WorldKind:
        kind = import_module(SHIPPED[name]).WORLD
        assert isinstance(kind, WorldKind)
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(SHIPPED))

    def __len__(self) -> int:
        return len(SHIPPED)


def worlds() -> Mapping[str, WorldKind]:
    """The shipped worlds, for the engine."""
    return ShippedWorlds()
