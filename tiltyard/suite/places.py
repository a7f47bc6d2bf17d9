"""Suites of several places: what is shipped, and what has been imported."""

from collections.abc import Iterable
from pathlib import Path

from tiltyard.errors import BadInput
from tiltyard.suite.families import LITERAL, Family, Suite, load_suite, shipped


def together(suites: Iterable[Suite]) -> Suite:
    """All families of several suites, by name. Raises ``BadInput`` for one that is in two of them."""
    families: dict[str, Family] = {}
    for suite in suites:
        for name, family in suite.families.items():
            if name in families:
                where = f"the family {name} is also in {families[name].path}"
                raise BadInput(where, field=str(family.path), fix="remove one of the files")
            families[name] = family
    return Suite(dict(sorted(families.items())))


def imported(folder: Path) -> tuple[Suite, ...]:
    """The suites below a folder of imports, one a source; none where nothing has been imported."""
    return tuple(load_suite(place) for place in sorted(folder.glob("*")) if any(place.glob(f"*/*{LITERAL}")))


def at_hand(imports: Path) -> Suite:
    """The suite of this installation with what has been imported into the folder ``imports``."""
    return together((shipped(), *imported(imports)))
