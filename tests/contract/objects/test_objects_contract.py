"""Every object store passes the kit, and the kit notices one that does not look at what it hands out."""

from pathlib import Path

import pytest

from infra.stores.objects import FolderObjects, RecentObjects
from tiltyard.errors import EnvironmentFailed, ObjectsUnreachable
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


def spoil_folder(objects: FolderObjects) -> Spoil:
    def spoil(name: str, data: bytes | None) -> None:
        if data is None:
            objects.path(name).unlink()
        else:
            objects.path(name).write_bytes(data)

    return spoil


@pytest.mark.parametrize("check", OBJECTS_CHECKS, ids=lambda check: check.__name__)
async def test_folder_objects(check: ObjectsCheck, tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path / "objects")
    await check(objects, spoil_folder(objects))


async def test_a_write_that_stops_half_way_leaves_no_object_and_no_file(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    name = await objects.put(b"first")
    path = objects.path(name)
    path.unlink()
    path.mkdir()  # the rename onto a folder fails after everything has been written
    with pytest.raises(EnvironmentFailed, match="cannot be written"):
        await objects.put(b"first")
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


async def test_a_folder_that_cannot_be_written_is_an_environment_failure(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("a file, not a folder")
    with pytest.raises(EnvironmentFailed, match="cannot be written"):
        await FolderObjects(tmp_path / "objects").put(b"data")


async def test_recent_objects_are_not_read_again_and_old_ones_are() -> None:
    store = MemoryObjects()
    recent = RecentObjects(store, limit_bytes=25)
    names = [await recent.put(bytes([n]) * 10) for n in range(3)]
    store.contents.clear()
    assert [await recent.get(name) for name in names[1:]] == [bytes([n]) * 10 for n in (1, 2)]
    with pytest.raises(EnvironmentFailed, match="missing"):
        await recent.get(names[0])


async def test_what_is_used_stays_and_what_is_larger_than_the_limit_is_not_kept() -> None:
    store = MemoryObjects()
    recent = RecentObjects(store, limit_bytes=25)
    used, unused = await recent.put(b"a" * 10), await recent.put(b"b" * 10)
    await recent.get(used)
    newest = await recent.put(b"c" * 10)
    large = await recent.put(b"d" * 26)
    assert await recent.get(large) == b"d" * 26
    store.contents.clear()
    assert [await recent.get(used), await recent.get(newest)] == [b"a" * 10, b"c" * 10]
    for name in (unused, large):
        with pytest.raises(EnvironmentFailed):
            await recent.get(name)


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


async def test_an_object_that_is_there_and_cannot_be_read_may_be_read_later(tmp_path: Path) -> None:
    """It is not missing: whoever needs it tries again."""
    objects = FolderObjects(tmp_path)
    name = await objects.put(b"content")
    objects.path(name).unlink()
    objects.path(name).mkdir()
    with pytest.raises(ObjectsUnreachable, match="cannot be read"):
        await objects.get(name)
    objects.path(name).rmdir()
    with pytest.raises(EnvironmentFailed, match="is missing") as caught:
        await objects.get(name)
    assert not isinstance(caught.value, ObjectsUnreachable)
