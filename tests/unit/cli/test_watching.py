"""What is said of an episode that is followed."""

from typing import cast

from ops.cli import watching
from ops.cli.called import command_line
from ops.cli.telling import away
from schemas.episode import End, EpisodeResult, Validity
from schemas.status import EpisodeStatus, Failing
from workers.ground import Ground

RESULT = EpisodeResult(episode_id="e-1", task="t", policy="p", seed=0, end=End.SUBMITTED, validity=Validity.VALID)


class Told:
    """A ground on which an episode is in these states, one after another."""

    def __init__(self, *statuses: EpisodeStatus) -> None:
        self._statuses = list(statuses)

    async def status(self, episode_id: str) -> EpisodeStatus:
        return self._statuses.pop(0)

    async def result(self, episode_id: str) -> EpisodeResult:
        return RESULT


def leasing(attempt: int, why: str) -> EpisodeStatus:
    failing = (Failing(step="provision", attempt=attempt, why=why),) if why else ()
    return EpisodeStatus(episode_id="e-1", phase="leasing", failing=failing)


async def test_each_reason_of_a_failing_step_is_said_once_whatever_the_attempt() -> None:
    said: list[str] = []
    states = [leasing(1, ""), leasing(2, "away"), leasing(3, "away"), leasing(4, "full")]
    ground = Told(*states, EpisodeStatus(episode_id="e-1", phase="done"))
    assert await watching.follow(cast(Ground, ground), "e-1", said.append) == RESULT
    assert said == [
        "e-1: leasing, no turn yet",
        "e-1: leasing, failing, no turn yet\nfailing: provision, attempt 2: away",
        "e-1: leasing, failing, no turn yet\nfailing: provision, attempt 4: full",
    ]


def test_turns_are_counted_and_not_taken_for_a_turn_s_number() -> None:
    """The question of turn 3, in the story, is that of the fourth turn."""
    asks = EpisodeStatus(episode_id="e-1", phase="question", turns=4, question="may I?")
    assert watching.status_line(asks).splitlines()[0] == "e-1: question, after 4 turns"
    once = asks.model_copy(update={"turns": 1})
    assert watching.status_line(once).splitlines()[0] == "e-1: question, after 1 turn"


def test_of_an_open_episode_on_a_stopped_stack_it_is_said_how_to_see_what_it_needs() -> None:
    """It may be paused or ask something, and then to follow it is no way on."""
    assert away("e-1").splitlines() == [
        "e-1: open, and no stack is running; to see where it is, and what it needs:",
        command_line("up"),
        command_line("episodes", "show", "e-1"),
    ]
