"""Hosts of sandboxes: how each says that it is there, and how episodes find it again."""

from pydantic import Field

from schemas.base import Model

SANDBOXES = "sandboxes"
"""The end of the queue's name on which room for sandboxes is found; so no host may be called that."""

ELSEWHERE = "Elsewhere"
"""The type of the failure of a step that was taken up by another host than the one that has the sandbox."""

HOST_NAME = r"^[a-z0-9][a-z0-9-]{0,39}$"


FORGOTTEN_S = 86_400.0
"""A host that has been silent for so long is nobody's concern any more."""


class Capacity(Model):
    """How many sandboxes fit on a host at once, and for how many of them there is room now."""

    slots: int = Field(ge=0)
    free: int = Field(ge=0)


class HostBeat(Model):
    """A sign of life of a host. ``task_queue`` is the one whose episodes it serves."""

    host: str = Field(pattern=HOST_NAME)
    task_queue: str
    capacity: Capacity


class HostRecord(Model):
    """The last that was heard of a host, ``silent_s`` seconds ago."""

    host: str
    capacity: Capacity
    silent_s: float

    @property
    def forgotten(self) -> bool:
        """Whether it was not heard of lately."""
        return self.silent_s >= FORGOTTEN_S


class HostCheck(Model):
    """Whether a host is lost: it is when it has been silent for ``outage_s``."""

    host: str
    outage_s: float


class HostsOrder(Model):
    """Which hosts are there, and which have been silent for ``outage_s`` and are lost."""

    outage_s: float


class PermitOrder(Model):
    """Find a host with room for a sandbox of this name. ``now``: or none, where others wait for room."""

    name: str
    now: bool = False


class Permit(Model):
    """A permit to make a sandbox on ``host``, which keeps room for it for a moment; none: nobody does now.
    ``alone``: no other host was there lately."""

    host: str = ""
    alone: bool = False


class Hosts(Model):
    """The hosts that are there, and those that are lost, by name."""

    there: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def host_queue(task_queue: str, host: str) -> str:
    """Where a host takes what concerns its sandboxes."""
    return f"{task_queue}/{host}"


def sandboxes_queue(task_queue: str) -> str:
    """Where any host that has room says so."""
    return f"{task_queue}/{SANDBOXES}"
