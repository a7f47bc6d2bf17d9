"""What a fork has inherited, as an object for the steps after its lease."""

from pydantic import ValidationError

from schemas.base import canonical
from schemas.branch import Inherited
from tiltyard.errors import BadInput
from tiltyard.ports import Objects


async def keep_inherited(objects: Objects, inherited: Inherited) -> str:
    """The name of an object that holds it; the same for an equal one."""
    return await objects.put(canonical(inherited))


async def load_inherited(objects: Objects, name: str) -> Inherited:
    """What ``keep_inherited`` named so; nothing under no name. Raises as ``Objects.get`` does, and ``BadInput``."""
    if not name:
        return Inherited()
    try:
        return Inherited.model_validate_json(await objects.get(name))
    except ValidationError as error:
        raise BadInput(f"is nothing that a fork has inherited: {error}", field="inherited") from None
