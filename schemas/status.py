"""What a running episode says of itself: the answer to the ``status`` query."""

from typing import Literal

from schemas.base import Model
from schemas.episode import End
from schemas.start import SandboxPlace

Phase = Literal["leasing", "turns", "waiting", "question", "paused", "closing", "done"]


class SandboxHolding(Model):
    """The answer to the ``sandbox`` query. ``changing``: one is being made or given up, and nothing can be said."""

    place: SandboxPlace
    changing: bool = False


class Failing(Model):
    """A step that has failed and is tried again: ``attempt`` is the one under way, or the next."""

    step: str
    attempt: int
    why: str

    def __str__(self) -> str:
        return f"{self.step}, attempt {self.attempt}: {self.why}"


class EpisodeStatus(Model):
    """``question`` is what the policy asks a person, cut to a kilobyte; the whole is in the journal.

    ``failing`` are the steps that are being tried again, with their last failure; whoever asks from outside the
    workflow adds them.
    """

    episode_id: str
    phase: Phase
    turns: int = 0
    slices: int = 0
    paused: bool = False
    question: str = ""
    failing: tuple[Failing, ...] = ()
    end: End | None = None
    reason: str = ""
