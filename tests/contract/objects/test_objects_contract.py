"""Every object store passes the kit, and the kit notices one that does not look at what it hands out."""

import pytest

from tiltyard.errors import EnvironmentFailed
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.objects_kit import OBJECTS_CHECKS, ObjectsCheck, Spoil


def spoil_memory(objects: MemoryObjects) -> Spoil:
    def spoil(name: str, data: bytes | None) -> None:
        if data is None:
            del objects.contents[name]
        else:
            objects.contents[name] = data

    return spoil


@pytest.mark.parametrize("check", OBJECTS_CHECKS, ids=lambda check: check.__name__)
async def test_memory_objects(check: ObjectsCheck) -> None:
    objects = MemoryObjects()
    await check(objects, spoil_memory(objects))


class NeverVerifies(MemoryObjects):
    async def get(self, name: str) -> bytes:
        try:
            return self.contents[name]
        except KeyError:
            raise EnvironmentFailed(f"object {name} is missing") from None


async def test_the_kit_catches_a_store_that_never_verifies() -> None:
    for check in OBJECTS_CHECKS:
        objects = NeverVerifies()
        try:
            await check(objects, spoil_memory(objects))
        except AssertionError:
            return
    pytest.fail("the kit let it pass")
