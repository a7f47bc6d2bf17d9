"""All that an episode is judged by, collected after the drain."""

from typing import Literal

from schemas.base import Model
from schemas.episode import EpisodeSpec
from schemas.journal import TurnRecord
from schemas.slice import Ending
from schemas.world import DrainReport, Facts

Reading = Literal["committed", "absent", "unknown"]
"""How a call that was in flight at the seal is read. ``absent`` is final; ``unknown`` is never guessed (I2)."""


class Evidence(Model):
    """``in_flight`` are the deliveries of the turn that was open at the seal."""

    spec: EpisodeSpec
    ending: Ending
    turns: tuple[TurnRecord, ...]
    facts: Facts
    drain: DrainReport
    in_flight: dict[str, Reading] = {}
