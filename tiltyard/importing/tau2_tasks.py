"""One task of τ²-bench as a task of ours: instruction, contracts, reference, and what is wrong with it.

Everything here is plain data, in the words of a task file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schemas.base import JsonObject, JsonValue
from schemas.contract import ChangeKind
from schemas.imported import FailingStep
from schemas.world import RowChange, TemplateRef
from tiltyard.graders.state import kind_of
from tiltyard.importing.tau2_source import Action, SourceTask
from tiltyard.suite.standing import IDLE_PASSES, NO_CALL, UNSCORABLE
from tiltyard.worlds.kit import WorldKind
from tiltyard.worlds.sequence import Played

HAND_OVER = "transfer_to_human_agents"
"""The tool that ends what an agent may do. What it is told is free text, so only the call can be asked for."""

TURNS, TOOL_CALLS = 100, 200
"""Budgets of a task, or twice what its reference needs where that is more."""

WORK = (
    "You are the service agent. Nobody is on the line: what you would ask the customer, the brief above answers; "
    "it is written to the customer. Do what the customer ends up wanting, as far as the policy below allows. When "
    'you are done, submit {"message": TEXT} with everything that you tell the customer.'
)


@dataclass(frozen=True)
class Graded:
    """What a reference came to on the template: its steps that the world refused, and what it changed."""

    failing: tuple[FailingStep, ...]
    changes: tuple[RowChange, ...]

    @classmethod
    def of(cls, actions: Sequence[Action], played: Played) -> "Graded":
        failing = tuple(
            FailingStep(step=number, tool=action.name, code=shown.code, message=shown.message)
            for number, (action, shown) in enumerate(zip(actions, played.shown, strict=True), 1)
            if shown.status != "ok"
        )
        return cls(failing, played.facts.changes)


def idle_passes(task: SourceTask, graded: Graded) -> bool:
    """Whether doing nothing passes by the source's own criteria, the end state and the facts."""
    return not graded.changes and not task.facts and "ACTION" not in _basis(task)


def no_call(task: SourceTask) -> bool:
    """Whether the reference of a task that can be judged only tells something, without looking it up."""
    return not task.actions and not unscorable(task)


def unscorable(task: SourceTask) -> str:
    """Why no trial of the task can be judged; empty when it can."""
    criteria = task.evaluation_criteria
    if any(value for value in (task.initial_state or {}).values()):
        return "it starts from an initial_state of its own, which is not imported"
    if criteria is not None and criteria.env_assertions:
        return "it is judged by env_assertions, which are code of its source"
    if any(action.requestor == "user" for action in task.actions):
        return "its reference has actions of the user, who is not played here"
    if not task.actions and not task.facts:
        return "its source names neither an action nor a fact to tell"
    return ""


def task_fields(
    task: SourceTask, graded: Graded, policy: str, template: TemplateRef, world: WorldKind
) -> JsonObject:
    """The task as a variant of a task file."""
    why = unscorable(task)
    steps = len(task.actions)
    return {
        "instruction": instruction(task, policy),
        "template": template.model_dump(mode="json"),
        "limits": {"turns": max(TURNS, 2 * steps + 2), "tool_calls": max(TOOL_CALLS, 2 * steps)},
        "contracts": [_impossible()] if why else contracts(task, graded, world),
        "references": [{"steps": [{"give_up": why}] if why else reference(task, graded)}],
        "metadata": metadata(task, graded),
    }


def instruction(task: SourceTask, policy: str) -> str:
    """The customer's brief, what is to be done, and the policy to keep to."""
    scenario, brief = task.user_scenario, task.user_scenario.instructions
    parts = (
        ("", brief.reason_for_call),
        ("What you know: ", brief.known_info),
        ("What you do not know: ", brief.unknown_info),
        ("How you behave: ", brief.task_instructions),
        ("Who you are: ", scenario.persona),
    )
    told = "\n".join(f"{title}{text.strip()}" for title, text in parts if text and text.strip())
    return f"# The customer's brief\n{told}\n\n# Your work\n{WORK}\n\n# The policy\n{policy}\n"


def contracts(task: SourceTask, graded: Graded, world: WorldKind) -> list[JsonValue]:
    """The end state; the facts, where there are any; and calls, where nothing else tells work from idleness."""
    made: list[JsonValue] = [
        {
            "kind": "state",
            "idle_passes": not graded.changes,
            "outcomes": [{"name": "as the reference", "changes": [_expected(one) for one in graded.changes]}],
        }
    ]
    if task.facts:
        made.append({"kind": "answer", "facts": list(task.facts)})
    needed = _needed(task, graded, world)
    if needed:
        rules: list[JsonValue] = [{"rule": "require", "call": _match(action)} for action in needed]
        made.append({"kind": "process", "rules": rules})
    return made


def _needed(task: SourceTask, graded: Graded, world: WorldKind) -> list[Action]:
    """The calls that must happen: those that tell most of what the reference is about."""
    if "ACTION" in _basis(task):
        return list(task.actions)
    if not idle_passes(task, graded):
        return []
    writes = [action for action in task.actions if world.tools[action.name].spec.writes]
    transfers = [action for action in task.actions if action.name == HAND_OVER]
    return writes or transfers or list(task.actions)


def _match(action: Action) -> JsonObject:
    compared = () if action.name == HAND_OVER else action.compare_args
    arguments = {name: value for name, value in action.arguments.items() if compared is None or name in compared}
    return {"tool": action.name, "arguments": arguments}


def _expected(change: RowChange) -> JsonObject:
    kind: ChangeKind = kind_of(change)
    expected: JsonObject = {"collection": change.collection, "key": change.key, "change": kind}
    return expected if kind == "deleted" else {**expected, "after": change.after}


def _impossible() -> JsonObject:
    """A contract that no answer passes: a task that cannot be judged is never completed."""
    return {"kind": "answer", "name": UNSCORABLE, "accept": []}


def reference(task: SourceTask, graded: Graded) -> list[JsonValue]:
    """The source's own solution, with the steps that are known to be refused."""
    refused = {step.step for step in graded.failing}
    steps: list[JsonValue] = [
        {"tool": action.name, "arguments": literal(action.arguments)}
        | ({"fails": True} if number in refused else {})
        for number, action in enumerate(task.actions, 1)
    ]
    return [*steps, {"submit": {"message": literal("; ".join(task.facts)) or "It is done."}}]


def literal(value: Any) -> Any:
    """A value that a reference's run-time expressions leave as it is."""
    if isinstance(value, dict):
        return {key: literal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [literal(item) for item in value]
    return value.replace("${", "$${") if isinstance(value, str) else value


def metadata(task: SourceTask, graded: Graded) -> JsonObject:
    """Where the task is from, and what is known to be wrong with it."""
    criteria = task.evaluation_criteria
    marks: JsonObject = {
        "failing_steps": [step.model_dump(mode="json") for step in graded.failing],
        "nl_assertions": list((criteria and criteria.nl_assertions) or ()),
        IDLE_PASSES: idle_passes(task, graded),
        UNSCORABLE: unscorable(task),
        NO_CALL: no_call(task),
    }
    return {"source": "tau2", "source_id": task.id, **{name: value for name, value in marks.items() if value}}


def _basis(task: SourceTask) -> tuple[str, ...]:
    return task.evaluation_criteria.reward_basis if task.evaluation_criteria else ()
