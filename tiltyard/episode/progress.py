"""What the journal says of an episode's progress: the view, budgets, stalls. Pure functions of the turns."""

from collections.abc import Sequence

from schemas.base import canonical
from schemas.decision import Call
from schemas.journal import TurnRecord
from schemas.observation import Observation
from schemas.task import Limits, Task
from schemas.tool import ToolSpec
from schemas.view import Budgets, Turn, View

STALL_CALLS = 5
"""Calls of one tool with unchanged arguments, one after the other, that make a stall."""


def view_of(task: Task, tools: tuple[ToolSpec, ...], turns: Sequence[TurnRecord], seed: int, notice: str) -> View:
    """What the policy decides the next turn by."""
    return View.model_construct(
        instruction=task.instruction,
        tools=tools,
        transcript=tuple(
            Turn.model_construct(decision=turn.decision, observations=turn.observations or ()) for turn in turns
        ),
        budgets=budgets_left(task.limits, turns),
        seed=seed,
        turn=len(turns),
        memo=turns[-1].decision.memo if turns else None,
        notice=notice,
    )


def budgets_left(limits: Limits, turns: Sequence[TurnRecord]) -> Budgets:
    """Budgets that are left, never below zero."""
    calls = sum(len(turn.decision.calls) for turn in turns)
    tokens = sum(turn.decision.tokens for turn in turns)
    now_s = turns[-1].now_s if turns else 0
    return Budgets(
        turns=max(0, limits.turns - len(turns)),
        tool_calls=max(0, limits.tool_calls - calls),
        tokens=None if limits.tokens is None else max(0, limits.tokens - tokens),
        virtual_s=None if limits.virtual_s is None else max(0, limits.virtual_s - now_s),
    )


def used_up(left: Budgets) -> str:
    """The name of a budget with nothing left, or nothing."""
    for name in ("turns", "tool_calls", "tokens", "virtual_s"):
        if getattr(left, name) == 0:
            return name
    return ""


def exhausted_budget(limits: Limits, turns: Sequence[TurnRecord]) -> str:
    """The budget that ends the episode before the next turn, or nothing.

    Turns end at their number. Any other budget that is used up grants one last turn, with a notice.
    """
    left = budgets_left(limits, turns)
    if left.turns == 0:
        return "turns"
    spent = used_up(left)
    return spent if spent and turns and used_up(budgets_left(limits, turns[:-1])) else ""


def last_turn_notice(limits: Limits, turns: Sequence[TurnRecord]) -> str:
    """What the policy is told before its last turn, or nothing."""
    left = budgets_left(limits, turns)
    spent = used_up(left)
    if spent:
        return f"The budget of {spent} is used up: this is your last turn. Submit what you have, or give up."
    if left.turns == 1:
        return "This is your last turn: submit what you have, or give up."
    return ""


def stalled(task: Task, turns: Sequence[TurnRecord]) -> str:
    """Why the episode is stalled, or nothing. Polling tools that the task names are exempt."""
    tail: list[Call] = []
    for turn in reversed(turns):
        tail.extend(reversed(turn.decision.calls))
        if len(tail) >= STALL_CALLS:
            break
    if len(tail) < STALL_CALLS or tail[0].tool in task.polling_tools:
        return ""
    first = canonical(tail[0])
    if all(canonical(call) == first for call in tail[:STALL_CALLS]):
        return f"{STALL_CALLS} calls of {tail[0].tool} with unchanged arguments"
    return ""


def clip(observation: Observation, limit: int) -> Observation:
    """An observation whose content is at most ``limit`` bytes of JSON; what was cut is counted, not hidden."""
    size = len(canonical(observation.content))
    if size <= limit:
        return observation
    content = observation.content
    text = content if isinstance(content, str) else canonical(content).decode("utf-8", "replace")
    kept = text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
    return observation.model_copy(update={"content": kept, "truncated_bytes": size - len(kept.encode())})
