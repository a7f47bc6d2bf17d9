"""The public retail cases beside the checkout, and that they notice a wrong world."""

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from schemas.world import TemplateRef
from tiltyard.worlds.builtin import with_engine_tools
from tiltyard.worlds.cases import read_cases
from tiltyard.worlds.retail.world import WORLD
from tiltyard.worlds.verify import run_verify, verify

DATA = Path(__file__).parents[3] / "shared" / "data" / "retail"
CASES = DATA / "cases.jsonl"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not CASES.is_file(), reason=f"the public retail data is not at {DATA}"),
]


def test_every_public_case_holds() -> None:
    report = run_verify("retail", DATA, CASES)
    assert [str(mismatch) for result in report.results for mismatch in result.mismatches] == []
    assert report.summary == "117 of 117"


def test_operation_ids_change_nothing(tmp_path: Path) -> None:
    """The cases run the same with an operation id on every write that succeeds."""
    writes = {name for name, tool in WORLD.tools.items() if tool.spec.writes}
    lines = []
    for text in CASES.read_text(encoding="utf-8").splitlines():
        case = json.loads(text)
        for number, step in enumerate(case["steps"]):
            if step["tool"] in writes:
                step["arguments"]["operation_id"] = f"op-{number}"
        lines.append(json.dumps(case))
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert run_verify("retail", DATA, path).summary == "117 of 117"


@pytest.mark.parametrize(
    "tool",
    [
        "cancel_pending_order",
        "modify_pending_order_address",
        "modify_pending_order_items",
        "modify_pending_order_payment",
        "modify_user_address",
        "return_delivered_order_items",
        "exchange_delivered_order_items",
    ],
)
def test_a_write_that_does_nothing_is_noticed(tool: str) -> None:
    lazy = replace(WORLD.tools[tool], run=lambda state, **arguments: "done")
    world = replace(WORLD, tools=MappingProxyType({**WORLD.tools, tool: lazy}))
    template = TemplateRef(name="file", params={"path": str(DATA / "db.json")})
    cases = [
        case
        for case in read_cases(CASES, with_engine_tools(world).tools)
        if any(step.tool == tool and step.ok for step in case.steps)
    ]
    assert cases
    assert not any(result.passed for result in verify(world, template, cases[:5]).results)
