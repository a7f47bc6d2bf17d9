"""The files of a fork's sandbox, where no checkpoint has them: the commands since the last one are run again."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.journal import TurnRecord
from schemas.observation import Observation
from schemas.task import Task
from tiltyard.episode.clipping import as_shown
from tiltyard.episode.delivery import delivery_id
from tiltyard.episode.gateway import OVER_BUDGET, SANDBOX_LOST, Clocks, Gateway, Place, after_command
from tiltyard.episode.progress import Progress
from tiltyard.episode.sandboxing import has_unsaved, last_checkpoint
from tiltyard.errors import NotRebuilt
from tiltyard.sandbox.normalise import normalised_value
from tiltyard.sandbox.tools import is_command


@dataclass(frozen=True)
class Behind:
    """Turns of a fork's parent of which its sandbox has nothing, and the clocks before the first of them."""

    turns: tuple[TurnRecord, ...]
    clocks: Clocks


NOT_BEHIND = Behind((), Clocks())


def behind_of(task: Task, turns: Sequence[TurnRecord], kept: int) -> Behind:
    """What a sandbox with the files of the last checkpoint lacks of the first ``kept`` turns, a fork's parent's."""
    saved = last_checkpoint(turns)
    first = 0 if saved is None else saved.turn + 1
    if first >= kept or not has_unsaved(task, turns[:kept]):
        return NOT_BEHIND
    return Behind(tuple(turns[first:kept]), Progress(task, turns[:first]).clocks)


async def rebuild(gateway: Gateway, place: Place, key: tuple[str, int], behind: Behind) -> None:
    """Run the commands that the sandbox lacks, in order and at their virtual times.

    They have ids of the episode ``key``, so that a slice that is tried again runs none twice, and what they ask of
    the world is answered from its records. Raises ``NotRebuilt`` when one shows something else than it did.
    """
    task, clocks = place.task, behind.clocks
    for turn in behind.turns:
        for index, (call, shown) in enumerate(zip(turn.decision.calls, turn.observations or (), strict=False)):
            if not is_command(task, call.tool) or shown.code == OVER_BUDGET:
                continue
            if shown.code != SANDBOX_LOST:
                answered = await gateway.call(place, delivery_id(*key, turn.turn, index), call, clocks)
                _require_equal(task, turn.turn, shown, answered.observed(call.tool))
            clocks = after_command(clocks, call.tool)


def _require_equal(task: Task, turn: int, shown: Observation, again: Observation) -> None:
    names = task.sandbox.normalise if task.sandbox is not None else ()
    was, *may_be = (
        normalised_value(one.model_dump(mode="json"), names) for one in (shown, *as_shown(again, shown))
    )
    if was not in may_be:  # its parent may have been shown more or less of it
        raise NotRebuilt(
            f"the files of turn {turn} cannot be brought back: {shown.tool} was run again and shows something else",
            fix="branch after a turn whose files were kept",
        )
