"""The pages say what a sandbox's fields are by default and what may stand there: as the models have it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic.fields import FieldInfo

from infra.sandboxes.docker.places import FOLDER
from schemas.contract import TestsContract as Contract
from schemas.sandbox import Normaliser, SandboxLimits, SandboxPlan

DOCS = Path(__file__).resolve().parents[3] / "docs"


def rows(page: str, heading: str) -> dict[str, tuple[str, ...]]:
    """Of the table under this heading, the cells of each row by the field's name."""
    found: dict[str, tuple[str, ...]] = {}
    lines = iter((DOCS / page).read_text().splitlines())
    for line in lines:
        if line.startswith(f"| {heading} |"):
            break
    for line in lines:
        if not line.startswith("|"):
            break
        first, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
        found.update({name: tuple(cells) for name in re.findall(r"`([a-z_]+)`", first)})
    return found


def size(number: float) -> str:
    unit, scale = next(
        (unit, scale) for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)) if number >= scale
    )
    return f"{number / scale:g} {unit}"


def written(name: str, number: float) -> str:
    return f"{number} ({size(number)})" if name.endswith("_bytes") else f"{number:g}"


def bounds(name: str, field: FieldInfo) -> str:
    """As the tables write them."""
    found: dict[str, Any] = {
        kind: getattr(one, kind) for one in field.metadata for kind in ("ge", "gt", "le") if hasattr(one, kind)
    }
    least = written(name, found["ge"]) if "ge" in found else f"above {found['gt']},"
    return f"{least} to {written(name, found['le'])}"


def numbers(model: type[SandboxLimits | SandboxPlan | Contract]) -> Iterator[tuple[str, FieldInfo]]:
    yield from ((name, field) for name, field in model.model_fields.items() if field.annotation in (int, float))


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("field of `limits`", SandboxLimits),
        ("field of `sandbox`", SandboxPlan),
        ("field of a `tests` contract", Contract),
    ],
)
def test_a_table_has_every_field_with_its_default_and_its_bounds(
    heading: str, model: type[SandboxLimits | SandboxPlan | Contract]
) -> None:
    table = rows("tasks.md", heading)
    assert set(table) == set(model.model_fields) - {"kind", "name", "idle_passes"}
    for name, field in numbers(model):
        default, values = table[name]
        assert default == written(name, field.default), name
        assert values.split(":")[0] == bounds(name, field), name


def test_the_words_that_may_stand_there_are_named() -> None:
    table, plan = rows("tasks.md", "field of `sandbox`"), SandboxPlan()
    assert table["normalise"][0] == ", ".join(f"`{one}`" for one in plan.normalise)
    assert re.findall(r"`(\w+)`", table["normalise"][1]) == list(get_args(Normaliser))
    assert table["on_loss"][0] == f"`{plan.on_loss}`"
    known = get_args(SandboxPlan.model_fields["on_loss"].annotation)
    assert re.findall(r"`(\w+)`", table["on_loss"][1]) == list(known)


def test_what_holds_a_sandbox_has_the_same_defaults() -> None:
    table = rows("sandboxes.md", "limit")
    for name, value in SandboxLimits().model_dump().items():
        expected = size(value) if name.endswith("_bytes") else f"{value:g} s" if name.endswith("_s") else str(value)
        assert table[name][0] == expected, name


def test_the_command_that_lists_containers_shows_the_label_that_they_have() -> None:
    (command,) = re.findall(r"^docker ps .*$", (DOCS / "sandboxes.md").read_text(), re.MULTILINE)
    assert f"--filter label={FOLDER} " in command
    assert f'{{{{.Label "{FOLDER}"}}}}' in command, "without a format Docker prints no labels"
