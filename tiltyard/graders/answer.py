"""Answer: what was submitted is acceptable, and the agent had been shown what it says.

The answer is a claim. It is compared with what the task accepts and with the contents of successful calls; it is
never evidence itself (I8).
"""

from collections.abc import Iterator

from schemas.base import JsonObject
from schemas.contract import AnswerContract
from tiltyard.graders.trial import Trial
from tiltyard.graders.values import MISSING, brief, fits, leaves, member, says, shown


def check_answer(contract: AnswerContract, trial: Trial) -> tuple[str, ...]:
    answer = trial.answer
    if answer is None:
        return ("no answer was submitted",)
    return (
        *_not_accepted(contract, answer, trial),
        *_without_evidence(contract, answer, trial),
        *_not_looked_up(contract, trial),
        *(f"the answer does not say {fact!r}" for fact in contract.facts if not says(leaves(answer), fact)),
    )


def _not_accepted(contract: AnswerContract, answer: JsonObject, trial: Trial) -> list[str]:
    """The mismatches with the closest acceptable answer: the fewest, and of equals the one that shares most."""

    def mismatches(accepted: JsonObject) -> list[str]:
        return [
            f"{path} is {brief(member(answer, path))}, not {brief(value)}"
            for path, value in accepted.items()
            if not fits(value, member(answer, path), trial.operation_ids)
        ]

    found = [(mismatches(accepted), -len(accepted)) for accepted in contract.accept]
    return min(found, key=lambda one: (len(one[0]), one[1]), default=(["no answer is acceptable"], 0))[0]


def _without_evidence(contract: AnswerContract, answer: JsonObject, trial: Trial) -> Iterator[str]:
    for path, tools in contract.evidence.items():
        value = member(answer, path)
        if value is MISSING or value is None:
            continue
        contents = [call.content for call in trial.calls if call.status == "ok" and call.tool in tools]
        if not shown(value, contents):  # type: ignore[arg-type] # a member of a JSON value is one
            yield f"evidence missing: {path} = {brief(value)} was not shown by {' or '.join(tools)}"


def _not_looked_up(contract: AnswerContract, trial: Trial) -> Iterator[str]:
    tools = contract.looked_up
    if tools and not any(call.status == "ok" and call.tool in tools for call in trial.calls):
        yield f"nothing was looked up with {' or '.join(tools)}"
