"""Messages to a running episode."""

from pydantic import Field

from schemas.base import Model


class Stop(Model):
    """End the episode as ``cancelled``."""

    reason: str = Field(default="stopped by request", max_length=500)


class Answer(Model):
    """The answer of a person to the episode's question; at most 4,096 characters."""

    text: str = Field(min_length=1, max_length=4096)
