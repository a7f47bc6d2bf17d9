"""What is said of an episode that is followed."""

from typing import cast

from ops.cli import watching
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
        "e-1: leasing, turn 0",
        "e-1: leasing, failing, turn 0\nfailing: provision, attempt 2: away",
        "e-1: leasing, failing, turn 0\nfailing: provision, attempt 4: full",
    ]
