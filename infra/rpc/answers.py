"""Whether a world server does its work: asked with a true call, for nobody but the one who wants to know."""

from pathlib import Path

import grpc

from infra.rpc.channel import OPTIONS, address_of
from infra.rpc.failures import UNANSWERED
from infra.rpc.gen import world_pb2 as wire
from infra.rpc.gen.world_pb2_grpc import WorldStub


def answers(socket: Path, within_s: float) -> bool:
    """Ask the server at ``socket``; a refusal is an answer too. Waits ``within_s`` seconds at most."""
    with grpc.insecure_channel(address_of(socket), options=OPTIONS) as channel:
        try:
            WorldStub(channel).Describe(wire.DescribeRequest(), timeout=within_s)
        except grpc.RpcError as error:
            return error.code() not in UNANSWERED
    return True
