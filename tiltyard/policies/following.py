"""The policy that follows a known solution where it cannot see all turns: what it needs of them is in its memo."""

from collections.abc import Mapping

from pydantic import JsonValue

from schemas.base import JsonObject
from schemas.decision import Decision
from schemas.task import Reference, Step
from schemas.view import View
from tiltyard.errors import BadInput
from tiltyard.policies.plain import decision_of
from tiltyard.policies.script import give_up
from tiltyard.references import expressions, step_of


class Follower:
    """Follows a reference solution, for tasks whose history is summarised.

    Its memo holds the steps that are done, and of what they were shown all that later steps name. A memo of anybody
    else's (a forked episode) is none: it then begins with the first step.
    """

    def __init__(self, reference: Reference) -> None:
        self._reference = reference

    async def act(self, view: View) -> Decision:
        done, seen = self._so_far(view)
        if done >= len(self._reference.steps):
            return give_up(f"the reference {self._reference.name!r} ended without an answer")
        try:
            decision = decision_of(self._reference.steps[done], seen)
            needed = _named_in(self._reference.steps[done + 1 :])
        except BadInput as error:
            return give_up(f"the reference {self._reference.name!r} cannot go on: {error}")
        kept = {name: content for name, content in seen.items() if name in needed}
        return decision.model_copy(update={"memo": self._memo(done + 1, kept)}) if decision.calls else decision

    def begins_at(self, view: View) -> int:
        """The first turn of the view that is known to be its own; the number of its turns where none is."""
        return 0 if self._so_far(view)[0] else view.turn

    def _memo(self, done: int, seen: Mapping[str, JsonValue]) -> JsonObject:
        return {"reference": self._reference.name, "done": done, "seen": dict(seen)}

    def _so_far(self, view: View) -> tuple[int, dict[str, JsonValue]]:
        """(steps that are done, what they were shown by name)."""
        match view.memo:
            case {"reference": self._reference.name, "done": int(done), "seen": dict(seen)} if (
                view.transcript and 0 < done <= len(self._reference.steps)
            ):
                name, shown = self._reference.steps[done - 1].name, view.transcript[-1].observations
                return done, {**seen, **({name: shown[0].content} if name and shown else {})}
        return 0, {}


def _named_in(steps: tuple[Step, ...]) -> set[str]:
    """The steps whose contents these steps use."""
    return {step_of(path) for step in steps for path in expressions([step.arguments, step.submit])}
