"""A pin: a self-contained regression case, made of an episode and kept as a file (docs/regressions.md)."""

from typing import Literal, get_args

from pydantic import Field

from schemas.base import Model
from schemas.decision import Decision
from schemas.episode import End, Validity
from schemas.grade import ContractResult
from schemas.observation import ObservationStatus
from schemas.slice import Ending
from schemas.task import Task

Sealed = Literal["task", "seed", "sandbox", "turns", "ending", "expect"]
"""The parts of a pin that decide what it comes to: each has a digest, so that an edit by hand is noticed."""

SEALED: tuple[Sealed, ...] = get_args(Sealed)


NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"

PinDriver = Literal["bubblewrap", "docker"]
"""What may play the commands of a pin, again and again and without being asked: nothing that isolates nothing."""


class PinSource(Model):
    """Where a pin comes from. Notes for people: nothing is compared with them but by eye."""

    episode: str
    policy: str
    trace: str = ""
    graders: str = ""


class PinnedCall(Model):
    """What one call, or a question, was shown: how it went, its beginning, and a digest of the whole after the
    task's normalisers."""

    status: ObservationStatus
    code: str = ""
    brief: str = ""
    digest: str


class PinnedTurn(Model):
    """One decision, what a person answered where it asks (``None``: nobody did), and what came of it."""

    decision: Decision
    answer: str | None = None
    shown: tuple[PinnedCall, ...] = ()
    faults: tuple[str, ...] = ()
    now_s: int = 0


class Expectation(Model):
    """What playing the pin must come to. ``safety`` are kinds of findings, ``score`` the total to three digits."""

    end: End
    validity: Validity
    contracts: tuple[ContractResult, ...]
    safety: tuple[str, ...] = ()
    score: float = Field(ge=0, le=1)


class Pin(Model):
    """``sandbox`` is the driver that its commands need, ``ending`` how it ends where no decision ends it. ``turns``
    hold what was shown too: it decides nothing, and tells where a pin that no longer holds went another way."""

    pin: Literal[1] = 1
    name: str = Field(pattern=NAME)
    source: PinSource
    expect: Expectation
    seed: int
    sandbox: PinDriver | None
    ending: Ending
    turns: tuple[PinnedTurn, ...]
    task: Task
    sealed: dict[Sealed, str]
