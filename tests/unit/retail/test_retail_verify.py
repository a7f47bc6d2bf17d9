"""Verifying a world: a right one passes, each kind of wrong one is caught, bad cases are named."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel, JsonValue

from schemas.base import JsonObject
from schemas.verify import Case, VerifyReport
from schemas.world import TemplateRef
from tiltyard.errors import BadInput, Refused
from tiltyard.worlds.cases import read_cases
from tiltyard.worlds.differences import differences, result_differences
from tiltyard.worlds.kit import State, Template, WorldKind
from tiltyard.worlds.retail.world import WORLD
from tiltyard.worlds.verify import run_verify, verify

from .shop import ANN, BOB, PRODUCTS, entry, order

CANCEL: JsonObject = {"order_id": "#1", "reason": "no longer needed"}


def shop(kind: WorldKind = WORLD) -> WorldKind:
    rows: dict[str, dict[str, JsonValue | BaseModel]] = {
        "products": {product.product_id: product for product in PRODUCTS},
        "users": {user.user_id: user for user in (ANN, BOB)},
        "orders": {"#1": order("pending", paid_with="gift")},
    }
    return replace(kind, template=lambda name, params: Template.of(rows))


def broken(name: str, run: Callable[..., Any]) -> WorldKind:
    """The world with one tool doing something else."""
    tool = replace(WORLD.tools[name], run=run)
    return replace(WORLD, tools=MappingProxyType({**WORLD.tools, name: tool}))


def body(value: Any) -> Any:
    return value.model_dump(mode="json")


def case(**changes: JsonValue) -> Case:
    """Ann's order, paid with her gift card, is looked at and cancelled; a second time is refused."""
    before = order("pending", paid_with="gift")
    after = body(before) | {
        "status": "cancelled",
        "cancel_reason": "no longer needed",
        "payment_history": [entry("payment", 10.1, "gift"), entry("refund", 10.1, "gift")],
    }
    user = body(ANN)
    user["payment_methods"]["gift"]["balance"] = 25.15
    steps: list[JsonValue] = [
        {"tool": "get_order_details", "arguments": {"order_id": "#1"}, "ok": True, "result": body(before)},
        {"tool": "cancel_pending_order", "arguments": CANCEL, "ok": True, "result": None},
        {"tool": "cancel_pending_order", "arguments": CANCEL, "ok": False},
    ]
    plain: JsonObject = {
        "id": "c",
        "steps": steps,
        "changed": {"orders": {"#1": after}, "users": {ANN.user_id: user}},
    }
    return Case.model_validate(plain | changes)


def report(kind: WorldKind, *cases: Case) -> VerifyReport:
    return verify(shop(kind), TemplateRef(), cases or (case(),))


def told(kind: WorldKind, *cases: Case) -> list[str]:
    return [str(mismatch) for result in report(kind, *cases).results for mismatch in result.mismatches]


def test_a_right_world_passes() -> None:
    passed = report(WORLD, case(), case(id="again"))
    assert passed.ok
    assert passed.summary == "2 of 2"


def test_a_step_that_should_succeed_and_does_not() -> None:
    def refuses(state: State, **arguments: object) -> None:
        raise Refused("no", code="wrong_status")

    lines = told(broken("cancel_pending_order", refuses))
    assert lines[0] == "c: step 2 cancel_pending_order: expected success, got wrong_status: no"
    assert 'c: end state orders.#1.status: expected "cancelled", got "pending"' in lines
    assert "c: end state users.ann_lee_1.payment_methods.gift.balance: expected 25.15, got 15.05" in lines


def test_a_step_that_should_be_refused_and_is_not() -> None:
    lines = told(broken("cancel_pending_order", lambda state, **arguments: "as you like"))
    assert "c: step 3 cancel_pending_order: expected a refusal, got success" in lines


def test_a_tool_that_breaks_down_is_no_refusal() -> None:
    def breaks(state: State, **arguments: object) -> None:
        raise KeyError("bug")

    only_refusal = case(steps=[{"tool": "cancel_pending_order", "arguments": CANCEL, "ok": False}], changed={})
    lines = told(broken("cancel_pending_order", breaks), only_refusal)
    assert len(lines) == 1
    assert "expected a refusal, got tool_failed" in lines[0]


def test_a_read_that_answers_otherwise() -> None:
    lines = told(broken("get_order_details", lambda state, **arguments: order("delivered", paid_with="gift")))
    assert lines == ['c: step 1 get_order_details status: expected "pending", got "delivered"']


def test_a_change_that_no_case_lists() -> None:
    def also_deletes(state: State, **arguments: object) -> object:
        state.delete("users", BOB.user_id)
        return WORLD.tools["get_order_details"].run(state, **arguments)

    lines = told(broken("get_order_details", also_deletes))
    assert len(lines) == 1
    assert lines[0].startswith("c: end state users.bob_ray_2: expected {")
    assert lines[0].endswith("as before, got null")


def test_a_listed_entity_that_is_as_it_was_is_no_mismatch() -> None:
    idle = case(steps=[], changed={"users": {BOB.user_id: body(BOB)}})
    assert told(WORLD, idle) == []


def test_a_listed_entity_that_does_not_exist() -> None:
    assert told(WORLD, case(steps=[], changed={"users": {"nobody": {"a": 1}}})) == [
        'c: end state users.nobody: expected {"a": 1}, got null'
    ]


def test_cases_do_not_see_one_another() -> None:
    assert report(WORLD, *(case(id=f"c{number}") for number in range(5))).summary == "5 of 5"


def test_counts_the_cases_that_pass() -> None:
    wrong = case(id="w", changed={})
    failed = report(WORLD, case(), wrong)
    assert failed.summary == "1 of 2"
    assert not failed.ok


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (1, 1.0),
        (0.3, 0.1 + 0.2),
        (-0.0, 0),
        ("12.0", "12"),
        ("0.30", "0.30000001"),
        ('{"a": 1}', '{ "a":1.0 }'),
        ("NaN", "NaN"),
        ("plain", "plain"),
        (1e300, 1e300),
        ({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]}),
    ],
)
def test_equal_results(expected: JsonValue, got: JsonValue) -> None:
    assert list(result_differences(expected, got)) == []


@pytest.mark.parametrize(
    ("expected", "got", "where"),
    [
        (1, 1.01, ""),
        (1, True, ""),
        (1, "1", ""),
        (None, 0, ""),
        ("12.0", "12.01", ""),
        ("02134", "2134", ""),
        ("NaN", "Infinity", ""),
        ([1, 2], [2, 1], "0"),
        ([1], [1, 1], ""),
        ({"a": None}, {}, "a"),
        ({}, {"a": None}, "a"),
        ({"a": {"b": [{"c": 1}]}}, {"a": {"b": [{"c": 2}]}}, "a.b.0.c"),
        (1e300, 2e300, ""),
    ],
)
def test_different_results_and_where(expected: JsonValue, got: JsonValue, where: str) -> None:
    found = list(result_differences(expected, got))
    assert found
    assert found[0].where == where


def test_text_within_a_value_is_compared_as_text() -> None:
    assert list(differences({"zip": "01"}, {"zip": "1"}))


GOOD = json.dumps({"id": "a", "steps": [], "changed": {}})


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "cases"),
        ("\n\n", "cases"),
        ("{", "cases.jsonl line 1"),
        ("[]", "cases.jsonl line 1"),
        (f"{GOOD}\n\n{{}}", "cases.jsonl line 3: id"),
        (f"{GOOD}\n\n{GOOD}", "cases.jsonl line 3: id"),
        ('{"id": "a", "id": "b", "steps": [], "changed": {}}', "cases.jsonl line 1"),
        ('{"id": "a", "steps": [], "changed": {"orders": {"#1": {}, "#1": {}}}}', "cases.jsonl line 1"),
        ('{"id": "a", "steps": 3, "changed": {}}', "cases.jsonl line 1: steps"),
        ('{"id": "a", "changed": {}}', "cases.jsonl line 1: steps"),
        ('{"id": "a", "steps": []}', "cases.jsonl line 1: changed"),
        ('{"id": "a", "steps": [{"tool": "calculate", "ok": true}], "changed": {}}', "line 1: steps.0.arguments"),
        (
            '{"id": "a", "steps": [{"tool": "calculate", "arguments": {}, "ok": true}], "changed": {}}',
            "cases.jsonl line 1: steps.0.result",
        ),
        (
            '{"id": "a", "steps": [{"tool": "calculte", "arguments": {}, "ok": false}], "changed": {}}',
            "cases.jsonl line 1: steps.0.tool",
        ),
        ("[" * 100_000, "cases.jsonl line 1"),
        ("\udcff", "cases.jsonl line 1"),
    ],
)
def test_bad_cases_are_named_by_line_and_field(tmp_path: Path, text: str, field: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInput) as error:
        read_cases(path, WORLD.tools)
    assert error.value.field.endswith(field)
    assert error.value.fix


def test_a_case_that_is_there_twice_is_named_with_both_lines(tmp_path: Path) -> None:
    """However often it is counted, it shows one thing."""
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join([GOOD, GOOD.replace('"a"', '"b"'), GOOD]))
    with pytest.raises(BadInput, match="'a' is also the id of line 1") as error:
        read_cases(path, WORLD.tools)
    assert error.value.field == "cases.jsonl line 3: id"


def test_data_that_are_no_file_are_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "db.json")
    (tmp_path / "cases.jsonl").write_text(GOOD)
    with pytest.raises(BadInput, match="no regular file"):
        run_verify("retail", tmp_path, tmp_path / "cases.jsonl")


def test_missing_files_and_unknown_worlds_are_named(tmp_path: Path) -> None:
    good = tmp_path / "cases.jsonl"
    good.write_text(GOOD)
    with pytest.raises(BadInput, match="no world"):
        run_verify("retial", tmp_path, good)
    with pytest.raises(BadInput, match="cannot read"):
        run_verify("retail", tmp_path, tmp_path / "none.jsonl")
    with pytest.raises(BadInput, match=r"db\.json"):
        run_verify("retail", tmp_path, good)
    with pytest.raises(BadInput, match="no template"):
        run_verify("replacement", tmp_path, good)
