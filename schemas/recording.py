"""What an episode was given from outside: with it, the same things happen again in a fresh environment."""

from schemas.base import Model
from schemas.decision import Decision
from schemas.slice import Ending

RECORDED = "recorded"
"""The policy that plays a recording, which its digest names."""


class Recording(Model):
    """The decisions of a policy, in order, and what people answered.

    ``answers`` are those to its questions, in order; ``None``: nobody answered. ``ending`` is how the episode ends
    where the decisions run out and nothing in them has ended it: a time that was over, a stop, a failing policy.
    """

    decisions: tuple[Decision, ...]
    answers: tuple[str | None, ...] = ()
    ending: Ending
