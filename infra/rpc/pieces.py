"""Documents that grow with an episode: they are sent in pieces, so that no limit of a message is theirs."""

from collections.abc import Iterator

from pydantic import BaseModel

from infra.rpc.gen import world_pb2 as wire
from schemas.base import canonical

PIECE_BYTES = 1024 * 1024


def pieces_of(document: BaseModel) -> Iterator[wire.Document]:
    """A document's canonical JSON, cut."""
    whole = canonical(document)
    for start in range(0, len(whole), PIECE_BYTES):
        yield wire.Document(json=whole[start : start + PIECE_BYTES])
