"""The generator: the same parameters give the same state, and bad ones are named."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.errors import BadInput
from tiltyard.worlds.kit import Template
from tiltyard.worlds.replacement.template import template

from .desk import CASE


def test_the_same_parameters_give_the_same_template() -> None:
    assert template("default", CASE).digest == template("default", copy.deepcopy(CASE)).digest
    assert template("default", CASE | {"bystanders": 4}).digest != template("default", CASE).digest


def test_bystanders_are_other_people_with_tickets_of_their_own() -> None:
    rows = template("default", CASE | {"bystanders": 500}).rows
    assert [len(rows[name]) for name in ("customers", "devices", "tickets", "approvals")] == [501] * 4
    assert rows["tickets"]["T-1"] == template("default", CASE | {"bystanders": 0}).rows["tickets"]["T-1"]
    assert len({bytes(body) for body in rows["customers"].values()}) == 501


def test_deliveries_and_events_are_jobs_of_the_template() -> None:
    jobs = template("default", CASE).jobs
    assert [(kind, due_s) for kind, _, due_s in jobs] == [
        ("receive_stock", 3600),
        ("amend_approval", 7200),
        ("grant_approval", 9000),
    ]


DEVICE: dict[str, Any] = {"serial": "SN-1", "model": "aria-7", "customer_id": "CU-1", "bought_on": "2025-01-01"}

BAD: list[tuple[dict[str, Any], str]] = [
    ({"customer": None}, "customer"),
    ({"device": DEVICE | {"bought_on": "yesterday"}}, "device.bought_on"),
    ({"device": DEVICE | {"customer_id": "CU-2"}}, "device.customer_id"),
    ({"bystanders": -1}, "bystanders"),
    ({"bystanders": 20_001}, "bystanders"),
    ({"stock": {}}, "stock"),
    ({"stock": {"aria-7": {"available": -1}}}, "stock.aria-7.available"),
    ({"stock": {"aria-7": {}}}, "stock: aria-9"),
    ({"approvals": []}, "ticket.approval_ids"),
    ({"events": [{"kind": "amend", "after_s": 0, "approval_id": "A-1"}]}, "after_s"),
    ({"events": [{"kind": "amend", "after_s": 1, "approval_id": "A-7"}]}, "events.approval_id"),
    ({"events": [{"kind": "grant", "after_s": 1, "approval_id": "A-1", "model": "aria-7"}]}, "events.approval_id"),
    ({"approver": {"decision": "perhaps", "after_s": 5}}, "approver.decision"),
    ({"colour": "red"}, "colour"),
]


@pytest.mark.parametrize(("change", "named"), BAD)
def test_bad_parameters_are_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(BadInput, match=r"template\.params") as caught:
        template("default", CASE | change)
    assert named in str(caught.value)


def test_there_is_one_template() -> None:
    with pytest.raises(BadInput, match=r"template\.name.*default"):
        template("tiny", CASE)


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)


@given(st.sampled_from(sorted(CASE)), JSON)
def test_any_value_of_a_parameter_is_taken_or_named(name: str, value: Any) -> None:
    made, named = None, ""
    try:
        made = template("default", CASE | {name: value})
    except BadInput as error:
        named = error.field
    assert isinstance(made, Template) or named.startswith("template.params")
