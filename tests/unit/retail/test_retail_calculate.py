"""The calculator takes arithmetic and nothing else."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.errors import Refused
from tiltyard.worlds.retail.calculator import calculated

from .shop import Shop


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("12", "12.0"),
        ("155.33 - 147.05 + 268.77 - 235.13", "41.92"),
        ("0.1 + 0.2", "0.3"),
        ("2 + 3 * 4", "14.0"),
        ("(2 + 3) * 4", "20.0"),
        ("10 - 4 - 3", "3.0"),
        ("7 / 2 / 2", "1.75"),
        ("10 / 3", "3.33"),
        ("-(1 + 2)", "-3.0"),
        ("2 - -3", "5.0"),
        ("--2", "2.0"),
        ("  .5 + 1. ", "1.5"),
        ("-0.001", "0.0"),
        ("(" * 99 + "1" + ")" * 99, "1.0"),
        ("-" * 199 + "1", "-1.0"),
        ("9" * 200, "1e+200"),
    ],
)
def test_values(expression: str, value: str) -> None:
    assert calculated(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "2 ** 3",
        "2**3",
        "7 // 2",
        "1 / 0",
        "1 / (2 - 2)",
        "+5",
        "2 +",
        "",
        "   ",
        "()",
        "(1",
        "1 2",
        "2(3)",
        "1.2.3",
    ],
)
def test_refused_expressions(expression: str) -> None:
    with pytest.raises(Refused):
        calculated(expression)


@pytest.mark.parametrize("expression", ["abs(1)", "1e3", "1 % 2", "1,2", "1\n+2", "1 > 0", "__import__('os')", "٣"])
def test_other_characters_are_refused(expression: str) -> None:
    with pytest.raises(Refused, match="not one of digits"):
        calculated(expression)


def test_more_than_200_characters_are_refused() -> None:
    assert calculated("1" + " " * 199) == "1.0"
    with pytest.raises(Refused, match="200"):
        calculated("1" + " " * 200)


@given(st.text("0123456789+-*/(). ", max_size=200))
def test_any_text_of_its_characters_gets_a_number_or_a_refusal(expression: str) -> None:
    with contextlib.suppress(Refused):
        float(calculated(expression))


def test_the_tool_refuses_too() -> None:
    assert Shop().call("calculate", expression="1 + 1") == "2.0"
    assert Shop().refused("calculate", expression="1 / 0") == "division_by_zero"
