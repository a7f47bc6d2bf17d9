"""What every object store must do. ``spoil(name, bytes or None)`` changes or removes an object behind its back."""

import asyncio
from collections.abc import Awaitable, Callable

from schemas.base import sha256
from tiltyard.errors import EnvironmentFailed
from tiltyard.ports import Objects

__all__ = ["OBJECTS_CHECKS", "ObjectsCheck", "Spoil"]

Spoil = Callable[[str, bytes | None], None]
ObjectsCheck = Callable[[Objects, Spoil], Awaitable[None]]


async def _fails(objects: Objects, name: str) -> None:
    try:
        found = await objects.get(name)
    except EnvironmentFailed as error:
        message = str(error)
    else:
        raise AssertionError(f"{name} was handed out: {found[:40]!r}")
    assert name in message


async def what_was_put_is_got_under_its_digest(objects: Objects, spoil: Spoil) -> None:
    for data in (b"", b"\x00\xff", b"x" * 300_000):
        name = await objects.put(data)
        assert name == sha256(data)
        assert await objects.get(name) == data


async def putting_again_changes_nothing(objects: Objects, spoil: Spoil) -> None:
    assert await objects.put(b"twice") == await objects.put(b"twice")
    assert await objects.get(sha256(b"twice")) == b"twice"


async def many_at_once_are_all_whole(objects: Objects, spoil: Spoil) -> None:
    contents = [bytes([n % 5]) * 50_000 for n in range(20)]
    names = await asyncio.gather(*(objects.put(data) for data in contents))
    assert await asyncio.gather(*(objects.get(name) for name in names)) == contents


async def a_missing_object_is_an_environment_failure(objects: Objects, spoil: Spoil) -> None:
    await _fails(objects, sha256(b"never put"))
    name = await objects.put(b"gone")
    spoil(name, None)
    await _fails(objects, name)


async def a_changed_object_is_never_handed_out(objects: Objects, spoil: Spoil) -> None:
    name = await objects.put(b"the truth")
    for changed in (b"the trut", b"the truth ", b""):
        spoil(name, changed)
        await _fails(objects, name)


async def putting_again_mends_a_changed_object(objects: Objects, spoil: Spoil) -> None:
    name = await objects.put(b"the truth")
    spoil(name, b"a lie")
    await objects.put(b"the truth")
    assert await objects.get(name) == b"the truth"


async def a_name_that_is_no_digest_is_missing(objects: Objects, spoil: Spoil) -> None:
    for name in ("", "sha256:", "sha256:../../etc/passwd", "md5:" + "0" * 32, "sha256:" + "G" * 64):
        await _fails(objects, name)


OBJECTS_CHECKS: tuple[ObjectsCheck, ...] = (
    what_was_put_is_got_under_its_digest,
    putting_again_changes_nothing,
    many_at_once_are_all_whole,
    a_missing_object_is_an_environment_failure,
    a_changed_object_is_never_handed_out,
    putting_again_mends_a_changed_object,
    a_name_that_is_no_digest_is_missing,
)
