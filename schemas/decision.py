"""What a policy decides in one turn."""

from typing import Self

from pydantic import Field, JsonValue, model_validator

from schemas.base import JsonObject, Model

MAX_CALLS = 32
"""Calls that one turn may hold."""


class Call(Model):
    """One tool call; ``arguments`` are checked against the tool's schema by the world, not here."""

    tool: str = Field(min_length=1, max_length=200)
    arguments: JsonObject = {}


class Decision(Model):
    """One turn's decision: exactly one of calls, a question, an answer, or giving up.

    ``memo`` is the only thing that the policy may carry to its next turn outside the transcript. The next view has
    it; the transcript leaves it out.
    ``tokens`` is what the decision cost, where the policy knows it.
    """

    thought: str = ""
    calls: tuple[Call, ...] = Field(default=(), max_length=MAX_CALLS)
    ask: str | None = None
    submit: JsonObject | None = None
    give_up: str | None = None
    memo: JsonValue = None
    tokens: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        chosen = [name for name in ("calls", "ask", "submit", "give_up") if getattr(self, name) not in ((), None)]
        if len(chosen) != 1:
            found = ", ".join(chosen) or "none"
            raise ValueError(f"give exactly one of calls, ask, submit, give_up (found: {found})")
        return self

    def without_memo(self) -> Self:
        """The decision as a transcript shows it."""
        return self if self.memo is None else self.model_copy(update={"memo": None})
