"""The world ``code-repair``: tickets are read and closed, and a bad parameter is named."""

from typing import Any

import pytest

from schemas.base import JsonObject
from tiltyard.errors import BadInput
from tiltyard.testing.dict_state import DictState, call
from tiltyard.worlds.code_repair.template import template
from tiltyard.worlds.code_repair.world import WORLD
from tiltyard.worlds.kit import Refused

TICKET: JsonObject = {"ticket_id": "DESK-1", "title": "It is slow", "report": "Since Monday."}


def desk() -> DictState:
    return DictState(template("default", {"tickets": [TICKET]}))


def test_a_ticket_is_read_as_it_was_reported() -> None:
    shown = call(WORLD, desk(), "get_ticket", {"ticket_id": "DESK-1"})
    assert shown == {**TICKET, "status": "open", "summary": None}


def test_an_open_ticket_is_closed_once() -> None:
    state = desk()
    arguments: JsonObject = {"ticket_id": "DESK-1", "summary": "Mended."}
    assert call(WORLD, state, "close_ticket", arguments) == {"ticket_id": "DESK-1", "status": "closed"}
    assert state.load("tickets", "DESK-1") == {**TICKET, "status": "closed", "summary": "Mended."}
    with pytest.raises(Refused, match="is closed, not open"):
        call(WORLD, state, "close_ticket", arguments)
    assert state.saved == [("tickets", "DESK-1")]


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("get_ticket", {"ticket_id": "DESK-2"}, "not_found"),
        ("close_ticket", {"ticket_id": "DESK-2", "summary": "x"}, "not_found"),
        ("close_ticket", {"ticket_id": "DESK-1", "summary": ""}, "bad_arguments"),
        ("close_ticket", {"ticket_id": "DESK-1"}, "bad_arguments"),
    ],
)
def test_what_the_desk_refuses(tool: str, arguments: JsonObject, code: str) -> None:
    with pytest.raises(Refused) as caught:
        call(WORLD, desk(), tool, arguments)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "template.params.tickets"),
        ({"tickets": []}, "template.params.tickets"),
        ({"tickets": [{**TICKET, "title": ""}]}, "template.params.tickets.0.title"),
        ({"tickets": [{**TICKET, "status": "closed"}]}, "template.params.tickets.0.status"),
        ({"tickets": [TICKET, TICKET]}, "template.params"),
        ({"tickets": [TICKET], "more": 1}, "template.params.more"),
    ],
)
def test_a_bad_parameter_is_named(params: Any, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        template("default", params)
    assert caught.value.field == field


def test_there_is_one_template() -> None:
    with pytest.raises(BadInput, match="no template"):
        template("other", {"tickets": [TICKET]})
