"""Efficiency: what was used against what a reference solution uses."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from schemas.fault import Fault
from schemas.task import Reference, Task
from schemas.tool import ToolSpec
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
    """E: the best over the references of the mean over dimensions of min(1, reference / used).

    Dimensions are tool calls, tokens where both are known, and virtual time. With nothing used it is 0.
    """
    spent = used(trial)
    costs = {tool.name: tool for tool in trial.tools}
    return max(
        (_mean(reference_figures(one, trial.task, costs), spent) for one in trial.task.references), default=0
    )


def used(trial: Trial) -> Figures:
    """What the agent used. The settling wait of the harness is not the agent's."""
    clocks = [record.reply.now_s for record in trial.deliveries.values() if record.reply is not None]
    return Figures(
        tool_calls=len(trial.calls),
        tokens=sum(turn.decision.tokens for turn in trial.turns),
        virtual_s=max(clocks, default=0),
    )


def reference_figures(reference: Reference, task: Task, tools: Mapping[str, ToolSpec]) -> Figures:
    """What a reference uses: its calls, their costs, its waits, and the delays that the task plans."""
    now_s, calls = 0, 0
    seen: dict[str, int] = {}
    for step in reference.steps:
        if step.tool is None:
            continue
        calls += 1
        nth = seen[step.tool] = seen.get(step.tool, 0) + 1
        fault = next(_firing(task.faults, step.tool, nth, now_s), None)
        now_s += tools[step.tool].cost_s if step.tool in tools else 0
        seconds = step.arguments.get("seconds")
        if step.tool == WAIT_TOOL and isinstance(seconds, int) and not isinstance(seconds, bool):
            now_s += seconds
        now_s += fault.delay_s if fault is not None and fault.kind == "delay" else 0
    return Figures(tool_calls=calls, tokens=reference.tokens, virtual_s=now_s)


def _firing(faults: tuple[Fault, ...], tool: str, nth: int, now_s: int) -> Iterator[Fault]:
    for fault in faults:
        until_s = now_s + 1 if fault.until_s is None else fault.until_s
        if fault.tool == tool and fault.nth in (None, nth) and fault.from_s <= now_s < until_s:
            yield fault


def _mean(reference: Figures, spent: Figures) -> float:
    pairs = [
        (reference.tool_calls, spent.tool_calls),
        (reference.tokens, spent.tokens),
        (reference.virtual_s, spent.virtual_s),
    ]
    ratios = [min(1.0, wanted / was) for wanted, was in pairs if wanted > 0 and was > 0]
    return sum(ratios) / len(ratios) if ratios else 0.0
