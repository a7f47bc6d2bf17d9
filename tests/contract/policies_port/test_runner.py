"""What the runner takes for a policy and for a decision, without a process."""

import dataclasses
from typing import Any

import pytest

from schemas.decision import Decision
from tiltyard.policies.runner import act_of, plain

VIEW: dict[str, Any] = {"turn": 1}


class Bot:
    def __init__(self, name: str = "bot") -> None:
        self.name = name

    def act(self, view: dict[str, Any]) -> dict[str, Any]:
        return {"submit": {self.name: view["turn"]}}


def decide(view: dict[str, Any], style: str = "plain") -> dict[str, Any]:
    return {"submit": {style: view["turn"]}}


class Callable1:
    def __call__(self, view: dict[str, Any]) -> dict[str, Any]:
        return {"submit": {"called": view["turn"]}}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (decide, "plain"),
        (Bot, "bot"),
        (Bot("own"), "own"),
        (lambda: Bot("made"), "made"),
        (lambda: decide, "plain"),
        (Callable1(), "called"),
        (Callable1, "called"),
    ],
)
def test_what_can_be_a_policy(given: Any, name: str) -> None:
    assert act_of(given)(VIEW) == {"submit": {name: 1}}


@pytest.mark.parametrize("given", [3, object(), lambda: 3, type("Empty", (), {}), type("Odd", (), {"act": 3})])
def test_what_cannot(given: Any) -> None:
    with pytest.raises(TypeError, match="is no policy: it has no act"):
        act_of(given)


@dataclasses.dataclass
class Chosen:
    give_up: str


@pytest.mark.parametrize("decision", [{"give_up": "x"}, Chosen("x")])
def test_a_dict_and_a_dataclass_are_plain_decisions(decision: Any) -> None:
    assert plain(decision) == {"give_up": "x"}


def test_a_model_is_a_plain_decision() -> None:
    assert Decision.model_validate(plain(Decision(give_up="x"))) == Decision(give_up="x")


@pytest.mark.parametrize("decision", [None, "give up", 3, Chosen])
def test_anything_else_is_refused_with_an_example(decision: Any) -> None:
    with pytest.raises(TypeError, match=r"act returned \w+; return a dict such as"):
        plain(decision)
