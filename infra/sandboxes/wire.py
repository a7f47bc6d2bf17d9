"""The sandbox port between processes: the fields of each request, and what its answer is.

Server and client read the one table. Frames are those that the host speaks with its supervisors.
"""

from typing import Any

from pydantic import TypeAdapter

from schemas.base import Model
from schemas.host import Capacity
from schemas.operation import SandboxReply, SandboxRequest
from schemas.sandbox import DriverName, SandboxOffer, SandboxOrder, SandboxRecord, SandboxRef, Snapshot, WorldAccess
from schemas.sandbox_facts import SandboxDrain, SandboxFacts
from tiltyard.errors import BadInput, EnvironmentFailed, TiltyardError


class Offer(Model):
    driver: DriverName


class Provision(Model):
    order: SandboxOrder


class Call(Model):
    sandbox: SandboxRef
    request: SandboxRequest


class Connect(Model):
    sandbox: SandboxRef
    access: WorldAccess


class Copy(Model):
    sandbox: SandboxRef
    known: dict[str, str]


class Settle(Model):
    sandbox: SandboxRef
    limit_s: float


class Named(Model):
    sandbox: SandboxRef


class Nothing(Model):
    pass


METHODS: dict[str, tuple[type[Model], TypeAdapter[Any]]] = {
    "offer": (Offer, TypeAdapter(SandboxOffer)),
    "provision": (Provision, TypeAdapter(SandboxRef)),
    "connect": (Connect, TypeAdapter(None)),
    "call": (Call, TypeAdapter(SandboxReply)),
    "snapshot": (Copy, TypeAdapter(Snapshot)),
    "settle": (Settle, TypeAdapter(bool)),
    "seal": (Named, TypeAdapter(None)),
    "drain": (Named, TypeAdapter(SandboxDrain)),
    "facts": (Named, TypeAdapter(SandboxFacts)),
    "release": (Named, TypeAdapter(None)),
    "sandboxes": (Nothing, TypeAdapter(tuple[SandboxRecord, ...])),
    "sweep": (Nothing, TypeAdapter(int)),
    "capacity": (Nothing, TypeAdapter(Capacity)),
}
"""Each method of ``tiltyard.ports.Sandboxes``, by its name. Fields are its arguments in their order."""

LONGEST = 1_000
"""Characters kept of each text of an error."""


def failure_of(error: Exception) -> dict[str, str]:
    """An error as it is sent. One that is not ours is an ``EnvironmentFailed``."""
    kind = type(error).__name__ if isinstance(error, TiltyardError) else EnvironmentFailed.__name__
    if isinstance(error, BadInput):
        said = {"message": error.message, "field": error.field, "fix": error.fix}
    else:
        said = {"message": str(error) or type(error).__name__}
    return {"kind": kind, **{name: text[:LONGEST] for name, text in said.items()}}
