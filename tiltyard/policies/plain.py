"""Scripts that need no playbook: those that do no work, and the one that follows a known solution."""

from pydantic import JsonValue

from schemas.decision import Call, Decision
from schemas.task import Reference, Step
from tiltyard.errors import BadInput
from tiltyard.policies.script import Brief, Moves, Script, give_up, submit
from tiltyard.references import resolve


def at_once(decision: Decision) -> Script:
    """The script that ends with ``decision`` without a single call."""

    def script(brief: Brief) -> Moves:
        yield decision
        return decision

    return script


do_nothing = at_once(give_up("nothing was done"))

claim_success = at_once(submit({"outcome": "replaced", "replacement_id": "R-1001"}))
"""Claims what would be true, had it done the work."""


def follow(reference: Reference) -> Script:
    """The script that plays a reference solution, step by step."""

    def script(brief: Brief) -> Moves:
        seen: dict[str, JsonValue] = {}
        for step in reference.steps:
            try:
                decision = decision_of(step, seen)
            except BadInput as error:
                return give_up(f"the reference {reference.name!r} cannot go on: {error}")
            shown = yield decision
            if step.name:
                seen[step.name] = shown.content
        return give_up(f"the reference {reference.name!r} ended without an answer")

    return script


def decision_of(step: Step, seen: dict[str, JsonValue]) -> Decision:
    """What a step decides after what earlier ones were shown, by name. Raises ``BadInput``."""
    if step.tool is not None:
        arguments = resolve(step.arguments, seen)
        assert isinstance(arguments, dict)
        return Decision(thought=step.thought, calls=(Call(tool=step.tool, arguments=arguments),))
    if step.submit is not None:
        answer = resolve(step.submit, seen)
        assert isinstance(answer, dict)
        return Decision(thought=step.thought, submit=answer)
    return Decision(thought=step.thought, give_up=step.give_up)
