"""What a fork begins with, as an object."""

import gzip
import zlib

from pydantic import ValidationError

from schemas.base import canonical
from schemas.branch import BranchPoint
from tiltyard.errors import BadInput
from tiltyard.ports import Objects


async def keep_point(objects: Objects, point: BranchPoint) -> str:
    """The name of an object that holds it; the same for an equal one."""
    return await objects.put(gzip.compress(canonical(point), compresslevel=1, mtime=0))


async def load_point(objects: Objects, name: str) -> BranchPoint:
    """What ``keep_point`` named so. Raises as ``Objects.get`` does, and ``BadInput`` for anything else."""
    data = await objects.get(name)
    try:
        return BranchPoint.model_validate_json(gzip.decompress(data))
    except (OSError, EOFError, zlib.error, ValidationError) as error:
        raise BadInput(f"is no branch point: {error}", field="point") from None
