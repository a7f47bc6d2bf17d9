"""Episodes that another version of the workflows' code began, and what becomes of them."""

from pydantic import Field

from schemas.base import Model
from schemas.world import Owner


class Elsewhere(Model):
    """A running episode whose next step only a worker of the version ``version`` may decide, which is not ours."""

    episode_id: str
    owner: Owner
    version: str


class Stranded(Model):
    """An episode that waits for a worker of ``version``, of which there is none, for ``waited_s`` so far.

    ``reason`` is what our version would decide otherwise, or cannot read.
    """

    episode_id: str
    version: str
    reason: str
    waited_s: float = Field(default=0, ge=0)


class UpgradeOrder(Model):
    """``waited_s`` says for how long each stranded episode has waited; past ``limit_s`` it is terminated."""

    elsewhere: tuple[Elsewhere, ...]
    waited_s: dict[str, float] = {}
    limit_s: float = Field(default=86_400, ge=0)


class Upgrades(Model):
    """Episodes whose version has no worker: those that go on with ours, those that cannot, and the workflows of
    those that have waited for too long. ``problems``: why not all could be dealt with."""

    moved: tuple[str, ...] = ()
    stranded: tuple[Stranded, ...] = ()
    terminated: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
