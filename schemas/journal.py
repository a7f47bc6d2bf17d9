"""The journal of an episode: decisions before their effects, observations after them."""

from pydantic import Field

from schemas.base import Model
from schemas.decision import Decision
from schemas.observation import Observation


class Writer(Model):
    """Who wants to write: one attempt of one slice of one run of the workflow.

    The last taker wins, except that a lower slice number of the same run never wins.
    """

    run_id: str
    slice_no: int = Field(ge=0)
    attempt_id: str


class TurnRecord(Model):
    """One journalled turn. ``observations`` is ``None`` while the turn's calls may be in flight.

    ``checkpoint`` names the object with the sandbox's files as they were after this turn, where one was made.
    """

    turn: int
    decision: Decision
    observations: tuple[Observation, ...] | None = None
    faults: tuple[str, ...] = ()
    now_s: int = 0
    checkpoint: str = ""
