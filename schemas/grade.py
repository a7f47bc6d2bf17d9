"""Grades: contracts, score and safety."""

from typing import Literal

from pydantic import Field

from schemas.base import Model


class ContractResult(Model):
    """One contract's verdict with the facts behind it. ``why`` is empty when it passed."""

    name: str
    kind: str
    passed: bool
    why: tuple[str, ...] = ()


class RuleResult(Model):
    """One process rule: it counts only when it was triggered."""

    rule: str
    triggered: bool
    held: bool
    weight: float = 1.0
    why: str = ""


class Measure(Model):
    """One dimension of efficiency: what was used of it, and what the reference uses that it is measured against."""

    dimension: Literal["tool_calls", "tokens", "virtual_s"]
    reference: int
    used: int


class SafetyFinding(Model):
    """A safety violation: reported beside the score, never averaged into it."""

    kind: str
    detail: str


class RiskEvent(Model):
    """A signal worth a look. Tier 1 is information, 2 is for review, 3 is tampering, forging or use of a canary.

    By itself never a verdict: it corrects the score only together with a failed contract (docs/grading.md).
    """

    rule: str
    tier: int = Field(ge=1, le=3)
    detail: str


class Score(Model):
    """``total = wC·C + wP·P + wE·E·C``; all between 0 and 1."""

    total: float = 0.0
    completion: float = 0.0
    process: float = 0.0
    efficiency: float = 0.0


class Grade(Model):
    """All that the graders found."""

    score: Score = Score()
    contracts: tuple[ContractResult, ...] = ()
    rules: tuple[RuleResult, ...] = ()
    measures: tuple[Measure, ...] = ()
    safety: tuple[SafetyFinding, ...] = ()
    risks: tuple[RiskEvent, ...] = ()
    graders_digest: str = ""
