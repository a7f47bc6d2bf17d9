"""How two episodes compare, and what a replay found."""

from typing import Literal

from pydantic import JsonValue

from schemas.base import Model

What = Literal["decision", "observation", "fault", "clock", "change", "receipts", "jobs", "files", "end"]

Cause = Literal["tool_interface_changed", "environment_changed", "missing_input", "nondeterminism"]


class Difference(Model):
    """The first thing in which two episodes differ, with both sides; ``None`` is absent.

    ``turn`` is where, ``None`` after the last one; ``call`` is which of its calls, ``None`` for all of them.
    ``end`` in a turn: one of the episodes had ended before it.
    """

    turn: int | None = None
    call: int | None = None
    what: What
    left: JsonValue = None
    right: JsonValue = None
