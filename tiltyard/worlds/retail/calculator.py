"""Arithmetic on text that somebody else wrote: parsed and walked, never evaluated."""

import ast
import operator
from collections.abc import Callable

from tiltyard.errors import Refused

MAX_CHARACTERS = 200
ALLOWED = frozenset("0123456789+-*/(). ")

Number = int | float
BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def calculated(expression: str) -> str:
    """The value of ``expression``, rounded to two decimals, as text such as ``12.0``.

    Only digits, ``+-*/(). `` and at most 200 characters; binary ``+ - * /`` and unary minus. Raises ``Refused``
    for anything else and for a division by zero.
    """
    if len(expression) > MAX_CHARACTERS:
        raise Refused(f"expression: at most {MAX_CHARACTERS} characters", code="bad_expression")
    strange = sorted(set(expression) - ALLOWED)
    if strange:
        raise Refused(f"expression: {strange[0]!r} is not one of digits and +-*/(). ", code="bad_expression")
    try:
        tree = ast.parse(expression.strip(" "), mode="eval")
    except SyntaxError as error:
        raise Refused("expression: not an arithmetic expression", code="bad_expression") from error
    # The added zero turns a minus zero into the zero that everybody expects.
    return str(round(float(_value(tree.body)), 2) + 0.0)


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            return _binary(BINARY[type(op)], _value(left), _value(right))
    raise Refused("expression: only + - * / between numbers, unary minus and brackets", code="bad_expression")


def _binary(apply: Callable[[Number, Number], Number], left: Number, right: Number) -> Number:
    try:
        return apply(left, right)
    except ZeroDivisionError as error:
        raise Refused("expression: division by zero", code="division_by_zero") from error
