"""What a running episode says of itself: the answer to the ``status`` query."""

from typing import Literal

from schemas.base import Model
from schemas.episode import End

Phase = Literal["leasing", "turns", "waiting", "question", "paused", "closing", "done"]


class EpisodeStatus(Model):
    """``question`` is what the policy asks a person, cut to a kilobyte; the whole is in the journal."""

    episode_id: str
    phase: Phase
    turns: int = 0
    slices: int = 0
    paused: bool = False
    question: str = ""
    end: End | None = None
    reason: str = ""
