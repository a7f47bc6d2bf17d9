"""The world server: an engine behind gRPC on a unix socket."""

import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from pydantic import ValidationError

from infra.rpc.channel import OPTIONS, address_of
from infra.rpc.failures import TRAILER, to_wire
from infra.rpc.gen import world_pb2 as wire
from infra.rpc.gen.world_pb2_grpc import WorldServicer, add_WorldServicer_to_server
from infra.rpc.pieces import pieces_of
from infra.sockets import listening
from schemas.base import canonical
from schemas.branch import Past
from schemas.world import DeliveryRequest, LeaseRequest
from tiltyard.errors import BadInput, StackFailed, TiltyardError
from tiltyard.worlds.arguments import ARGUMENTS
from tiltyard.worlds.engine import Engine

THREADS = 16

log = logging.getLogger(__name__)


class Servicer(WorldServicer):
    """Each call of the proto is one call of the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def Describe(self, request: wire.DescribeRequest, context: Any) -> wire.Document:
        with _answering(context):
            return _document(list(self._engine.describe(request.world)))

    def Lease(self, request: wire.Document, context: Any) -> wire.Document:
        with _answering(context), _parsing("request"):
            asked = LeaseRequest.model_validate_json(request.json)
        with _answering(context):
            return _document(self._engine.lease(asked))

    def TakeOver(self, request: Iterator[wire.Document], context: Any) -> wire.Document:
        with _answering(context), _parsing("request"):
            asked = LeaseRequest.model_validate_json(next(request, wire.Document()).json)
        with _answering(context), _parsing("past"):
            past = Past.model_validate_json(b"".join(piece.json for piece in request))
        with _answering(context):
            return _document(self._engine.lease(asked, past))

    def SoFar(self, request: wire.Fence, context: Any) -> Iterator[wire.Document]:
        with _answering(context):
            yield from pieces_of(self._engine.so_far(request.namespace, request.generation))

    def Call(self, request: wire.Delivery, context: Any) -> wire.Document:
        with _answering(context), _parsing("arguments"):
            arguments = ARGUMENTS.validate_json(request.arguments)
        with _answering(context):
            sent = DeliveryRequest(
                namespace=request.fence.namespace,
                generation=request.fence.generation,
                delivery_id=request.delivery_id,
                tool=request.tool,
                arguments=arguments,
                elsewhere_s=max(0, request.elsewhere_s),
                incarnation=max(0, request.incarnation),
            )
            return _document(self._engine.call(sent))

    def Admit(self, request: wire.Admission, context: Any) -> wire.Done:
        with _answering(context):
            self._engine.admit(request.fence.namespace, request.fence.generation, request.incarnation)
            return wire.Done()

    def Seal(self, request: wire.Fence, context: Any) -> wire.Done:
        with _answering(context):
            self._engine.seal(request.namespace, request.generation)
            return wire.Done()

    def Drain(self, request: wire.Fence, context: Any) -> wire.Document:
        with _answering(context):
            return _document(self._engine.drain(request.namespace, request.generation))

    def Facts(self, request: wire.FactsRequest, context: Any) -> Iterator[wire.Document]:
        with _answering(context):
            fence = request.fence
            yield from pieces_of(self._engine.facts(fence.namespace, fence.generation, request.collections))

    def Recycle(self, request: wire.Fence, context: Any) -> wire.Recycled:
        with _answering(context):
            return wire.Recycled(recycled=self._engine.recycle(request.namespace, request.generation))

    def Quarantine(self, request: wire.QuarantineRequest, context: Any) -> wire.Done:
        with _answering(context):
            self._engine.quarantine(request.fence.namespace, request.fence.generation, request.reason)
            return wire.Done()

    def Leases(self, request: wire.LeasesRequest, context: Any) -> wire.Document:
        with _answering(context):
            return _document(list(self._engine.leases()))


def serve(engine: Engine, socket_path: Path) -> grpc.Server:
    """Start serving; ``stop(grace)`` of the server ends it.

    A socket left behind by a server that has died is taken over. Raises ``StackFailed`` when a living one
    listens there, ``BadInput`` when the path is too long for a socket.
    """
    address = address_of(socket_path)
    if listening(socket_path):
        raise StackFailed(f"a world server is listening on {socket_path} already")
    server = grpc.server(ThreadPoolExecutor(THREADS, thread_name_prefix="world"), options=OPTIONS)
    add_WorldServicer_to_server(Servicer(engine), server)
    server.add_insecure_port(address)
    server.start()
    os.chmod(socket_path, 0o600)
    return server


def _document(value: object) -> wire.Document:
    return wire.Document(json=canonical(value))


@contextmanager
def _answering(context: Any) -> Iterator[None]:
    """Whatever is raised becomes a status with its detail; the server goes on."""
    try:
        yield
    except TiltyardError as error:
        failed: Exception = error
    except Exception as error:
        log.exception("a call of the world server failed")
        failed = error
    else:
        return
    code, failure = to_wire(failed)
    context.set_trailing_metadata(((TRAILER, failure.SerializeToString()),))
    context.abort(code, failure.message)


@contextmanager
def _parsing(field: str) -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        where = ".".join([field, *map(str, found["loc"])])
        raise BadInput(found["msg"], field=where, fix="send the JSON of the model that the proto names") from error
