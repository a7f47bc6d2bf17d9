"""Our errors on the wire: the one table, read in both directions."""

import grpc
import grpc.aio

from infra.rpc.gen.world_pb2 import Failure
from tiltyard.errors import (
    BadInput,
    DeliveryConflict,
    EnvironmentFailed,
    LateWrite,
    NotPristine,
    TiltyardError,
    WorldUnreachable,
)

TRAILER = "tiltyard-failure-bin"

STATUS: dict[type[TiltyardError], grpc.StatusCode] = {
    BadInput: grpc.StatusCode.INVALID_ARGUMENT,
    LateWrite: grpc.StatusCode.FAILED_PRECONDITION,
    DeliveryConflict: grpc.StatusCode.ALREADY_EXISTS,
    NotPristine: grpc.StatusCode.DATA_LOSS,
    WorldUnreachable: grpc.StatusCode.UNAVAILABLE,
    EnvironmentFailed: grpc.StatusCode.INTERNAL,
}

KINDS = {kind.__name__: kind for kind in STATUS}

UNANSWERED = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
"""Statuses that say nothing about whether the call took effect: no server, none in time, one that stopped."""

LONGEST = 1_000
"""Characters kept of each text: trailers are small."""


def to_wire(error: Exception) -> tuple[grpc.StatusCode, Failure]:
    """An error as status and detail. One that we do not know is an ``EnvironmentFailed``."""
    kind = next((kind for kind in STATUS if isinstance(error, kind)), EnvironmentFailed)
    failure = Failure(kind=kind.__name__, message=_cut(str(error) or type(error).__name__))
    if isinstance(error, BadInput):
        failure.message, failure.field, failure.fix = _cut(error.message), _cut(error.field), _cut(error.fix)
    return STATUS[kind], failure


def from_wire(error: grpc.aio.AioRpcError) -> TiltyardError:
    """The error that the server raised, or what its silence means."""
    for key, value in error.trailing_metadata() or ():
        if key == TRAILER and isinstance(value, bytes):
            return _raised(Failure.FromString(value))
    said = f"{error.code().name}: {error.details()}"
    if error.code() in UNANSWERED:
        return WorldUnreachable(f"the world server did not answer ({said})")
    return EnvironmentFailed(f"the call to the world server failed ({said})")


def _raised(failure: Failure) -> TiltyardError:
    if failure.kind == BadInput.__name__:
        return BadInput(failure.message, field=failure.field, fix=failure.fix)
    return KINDS.get(failure.kind, EnvironmentFailed)(failure.message)


def _cut(text: str) -> str:
    clean = text.encode("utf-8", "replace").decode()
    return clean if len(clean) <= LONGEST else clean[:LONGEST] + "…"
