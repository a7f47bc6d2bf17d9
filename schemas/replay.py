"""How two episodes compare, and what a replay found."""

from typing import Literal

from pydantic import JsonValue

from schemas.base import Model
from schemas.episode import Digests

What = Literal["decision", "observation", "fault", "clock", "change", "receipts", "jobs", "files", "end"]

StrictWhat = Literal["digests", "grade", "drain"]
"""What a strict replay compares besides."""

Cause = Literal[
    "tool_interface_changed", "environment_changed", "judging_changed", "missing_input", "nondeterminism"
]


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


Compared = What | StrictWhat | Literal["input"]
"""What a verdict names; ``input`` is what an episode is made again from."""


class Differing(Model):
    """One condition that was not the same for two episodes, in words; ``left`` is the original's."""

    what: str
    left: str
    right: str


class Verdict(Model):
    """What a replay found. ``turn`` to ``right`` are those of the first difference (``Difference``), ``tool`` is
    that of its call.

    ``differs`` are all conditions that were not the same, also where nothing diverged. ``digests`` are those of the
    two outcomes. ``turns`` of the original had ended, and ``not_compared`` names what could not be compared.
    ``replay`` is empty where none could be made.
    """

    episode: str
    replay: str = ""
    diverged: bool
    turn: int | None = None
    call: int | None = None
    tool: str = ""
    what: Compared | None = None
    left: JsonValue = None
    right: JsonValue = None
    cause: Cause | None = None
    differs: tuple[Differing, ...] = ()
    digests: dict[Literal["episode", "replay"], Digests] = {}
    turns: int = 0
    not_compared: tuple[str, ...] = ()


class Outcome(Model):
    """What some of several replays of an episode came to alike. ``turn`` to ``cause`` are those of a verdict."""

    replays: tuple[str, ...]
    diverged: bool
    turn: int | None = None
    call: int | None = None
    what: Compared | None = None
    cause: Cause | None = None


class Tally(Model):
    """Several replays of one episode together. ``failed`` came to no end of their own and are in no outcome.

    ``flaky``: they differ among themselves, whatever the original did.
    """

    episode: str
    times: int
    agree: int
    diverged: int
    failed: int
    flaky: bool
    outcomes: tuple[Outcome, ...]
