"""The images that sandboxes are made from: which packages each has on top of the base."""

from collections.abc import Mapping
from types import MappingProxyType

BASE = "base"

RECIPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        BASE: (
            *("base-files", "dash", "coreutils", "findutils", "grep", "sed", "gawk", "diffutils", "util-linux"),
            *("tar", "gzip", "procps", "python3"),
        ),
        "code-repair": ("patch", "make"),
        "data-query": ("sqlite3", "jq"),
        "api-call": ("curl", "jq"),
        "web": ("curl", "libxml2-utils", "w3m"),
    }
)
"""Debian packages by image. Each but the base is one layer on top of it."""


def packages_of(image: str) -> tuple[str, ...]:
    """All that an image has asked for, the base's first; what they depend on comes with them."""
    return RECIPES[BASE] + (RECIPES[image] if image != BASE else ())
