"""Efficiency: what was used against what a reference solution uses."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from schemas.fault import Fault
from schemas.grade import Measure
from schemas.task import Reference, Task
from schemas.tool import ToolSpec
from tiltyard.graders.counts import calls_made
from tiltyard.graders.trial import Trial

WAIT_TOOL = "wait"
"""The engine's tool that moves the clock by its argument ``seconds``."""


@dataclass(frozen=True)
class Figures:
    """What a solution uses. Zero is not used: the dimension is left out."""

    tool_calls: int = 0
    tokens: int = 0
    virtual_s: int = 0


def efficiency(trial: Trial) -> float:
    """E: the mean over ``measures`` of min(1, reference / used).

    Where nothing is a measure, E is 1: nothing can be held against the agent; but 0 for an agent that made no call
    where every reference makes some.
    """
    found = measures(trial)
    if found:
        return _mean(found)
    idle = used(trial).tool_calls == 0 and all(one.tool_calls for one in _figures(trial))
    return 0.0 if idle else 1.0


def measures(trial: Trial) -> tuple[Measure, ...]:
    """What the agent is measured by: the dimensions of the reference that it comes off best against.

    Dimensions are tool calls, tokens and virtual time, each where both have used some. A reference without one in
    common is no measure.
    """
    spent = used(trial)
    found = filter(None, (_measures(one, spent) for one in _figures(trial)))
    return max(found, key=_mean, default=())


def _figures(trial: Trial) -> list[Figures]:
    costs = {tool.name: tool for tool in trial.tools}
    return [reference_figures(one, trial.task, costs) for one in trial.task.references]


def used(trial: Trial) -> Figures:
    """What the agent used. The settling wait of the harness is not the agent's."""
    clocks = [record.reply.now_s for record in trial.deliveries.values() if record.reply is not None]
    return Figures(
        tool_calls=calls_made(trial.turns, trial.task.limits.tool_calls),
        tokens=sum(turn.decision.tokens for turn in trial.turns),
        virtual_s=max(clocks, default=0),
    )


def reference_figures(reference: Reference, task: Task, tools: Mapping[str, ToolSpec]) -> Figures:
    """What a reference uses: its calls, and the virtual time that it declares or that its steps add up to."""
    calls = sum(step.tool is not None for step in reference.steps)
    return Figures(calls, reference.tokens, reference.virtual_s or _virtual_s(reference, task, tools))


def _virtual_s(reference: Reference, task: Task, tools: Mapping[str, ToolSpec]) -> int:
    """Costs of the calls, waits, and the delays that the task plans; 0 when a wait is known at run time only."""
    now_s = 0
    seen: Counter[str] = Counter()
    for step in reference.steps:
        if step.tool is None:
            continue
        seen[step.tool] += 1
        fault = next(_firing(task.faults, step.tool, seen[step.tool], now_s), None)
        waited_s = step.arguments.get("seconds", 0) if step.tool == WAIT_TOOL else 0
        if not isinstance(waited_s, int):
            return 0
        delay_s = fault.delay_s if fault is not None and fault.kind == "delay" else 0
        now_s += waited_s + delay_s + (tools[step.tool].cost_s if step.tool in tools else 0)
    return now_s


def _firing(faults: tuple[Fault, ...], tool: str, nth: int, now_s: int) -> Iterator[Fault]:
    for fault in faults:
        until_s = now_s + 1 if fault.until_s is None else fault.until_s
        if fault.tool == tool and fault.nth in (None, nth) and fault.from_s <= now_s < until_s:
            yield fault


def _measures(reference: Figures, spent: Figures) -> tuple[Measure, ...]:
    every = (
        Measure(dimension="tool_calls", reference=reference.tool_calls, used=spent.tool_calls),
        Measure(dimension="tokens", reference=reference.tokens, used=spent.tokens),
        Measure(dimension="virtual_s", reference=reference.virtual_s, used=spent.virtual_s),
    )
    return tuple(one for one in every if one.reference > 0 and one.used > 0)


def _mean(found: tuple[Measure, ...]) -> float:
    return sum(min(1.0, one.reference / one.used) for one in found) / len(found)
