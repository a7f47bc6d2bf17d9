"""Files of a sandbox as objects: they come back whole, and each time costs what has changed."""

import asyncio
import gzip
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.base import canonical, sha256
from schemas.checkpoint import Manifest, ManifestChange
from schemas.sandbox import FileEntry, SandboxPlan, Snapshot
from tiltyard.errors import BadInput, EnvironmentFailed
from tiltyard.sandbox.files import start_of
from tiltyard.sandbox.keeping import (
    EMPTY,
    MAX_PACKS,
    WholeManifest,
    fetch,
    keep,
    known_to,
    look_up,
    look_up_whole,
    pack_contents,
    pack_manifest,
    unpack_contents,
    unpack_manifest,
)
from tiltyard.testing.memory_objects import MemoryObjects

Files = Mapping[str, bytes]

NO_FILES = Snapshot()


def file(path: str, content: bytes) -> FileEntry:
    return FileEntry(path=path, size=len(content), digest=sha256(content), content=content)


def snapshot(files: Files) -> Snapshot:
    return Snapshot(entries=tuple(file(path, content) for path, content in sorted(files.items())))


def without(files: Snapshot, known: Mapping[str, str]) -> Snapshot:
    """As a sandbox sends them: contents that are known are left out."""
    there = (entry.kind == "file" and known.get(entry.path) == entry.digest for entry in files.entries)
    sent = zip(files.entries, there, strict=True)
    entries = tuple(entry.model_copy(update={"content": None}) if known else entry for entry, known in sent)
    return files.model_copy(update={"entries": entries})


@dataclass
class Keeper:
    """Keeps files again and again as episodes do: with what the last manifest has left out."""

    start: Snapshot = NO_FILES
    objects: MemoryObjects = field(default_factory=MemoryObjects)
    base: Manifest = EMPTY
    whole: WholeManifest | None = None

    async def keep(self, files: Snapshot) -> tuple[str, int]:
        """(the name, bytes that were sent and stored for it)."""
        before = set(self.objects.contents)
        sent = without(files, known_to(self.start, self.base))
        name, made = await keep(self.objects, sent, self.start, self.base, self.whole)
        self.base, self.whole = await look_up_whole(self.objects, name)
        assert self.base == made
        stored = sum(len(self.objects.contents[new]) for new in set(self.objects.contents) - before)
        return name, stored + sum(len(entry.content or b"") for entry in sent.entries)

    async def fetch(self, name: str) -> Snapshot:
        return await fetch(self.objects, name, self.start)


async def test_what_is_kept_comes_back_with_links_folders_and_what_was_skipped() -> None:
    start = start_of(SandboxPlan(files={"a": "1", "b": "2"}))
    left = Snapshot(
        entries=(
            file("a", b"1"),
            file("c", b""),
            FileEntry(path="d", kind="link", mode=0o777, target="a"),
            FileEntry(path="e", kind="directory", mode=0o700),
        ),
        skipped=("pipe: no file",),
    )
    keeper = Keeper(start)
    name, _ = await keeper.keep(left)
    assert await keeper.fetch(name) == left


MOVES = st.lists(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9).map(lambda n: b"%d" % n * n * 50)), max_size=40
)


@settings(max_examples=50, deadline=None)
@given(MOVES)
def test_every_one_of_many_comes_back_as_it_was(moves: list[dict[str, bytes]]) -> None:
    """Also contents that move, come back, are the task's or stand twice."""

    async def check() -> None:
        keeper = Keeper(start_of(SandboxPlan(files={"a": "1", "z": "22"})))
        kept = [(await keeper.keep(snapshot(files)), files) for files in moves]
        for (name, _), files in kept:
            assert await keeper.fetch(name) == snapshot(files)
        assert len(keeper.base.packs) <= MAX_PACKS

    asyncio.run(check())


def random_files(count: int, size: int, seed: int = 1) -> dict[str, bytes]:
    numbers = random.Random(seed)
    return {f"{number:04}": numbers.randbytes(size) for number in range(count)}


async def test_it_costs_what_has_changed_since_the_last_time() -> None:
    keeper, files = Keeper(), random_files(100, 10_000)
    _, first = await keeper.keep(snapshot(files))
    assert first > 1_000_000
    for turn in range(40):
        files["0007"] = random.Random(turn).randbytes(10_000)
        _, cost = await keeper.keep(snapshot(files))
        assert cost < 60_000, f"one file of 10,000 bytes of a hundred has changed: {cost} bytes at {turn}"
    name, nothing = await keeper.keep(snapshot(files))
    assert (nothing, (await keeper.keep(snapshot(files)))[0]) == (0, name), "equal files are an equal object"


@pytest.mark.parametrize("files", [10, 1000])
async def test_a_turn_costs_what_it_has_changed_however_many_files_there_are(files: int) -> None:
    keeper, there = Keeper(), random_files(files, 10)
    await keeper.keep(snapshot(there))
    costs = []
    for turn in range(10):
        there["0007"] = b"%d" % turn
        costs.append((await keeper.keep(snapshot(there)))[1])
    assert max(costs) < 1500, costs


async def test_where_another_file_changes_at_each_turn_a_whole_manifest_is_stored_now_and_then() -> None:
    """So a checkpoint is read from two manifests, and the dearest turn costs what all files do."""
    keeper, there = Keeper(), random_files(500, 10)
    _, first = await keeper.keep(snapshot(there))
    kept = [await keeper.keep(snapshot({**there, **change})) for change in growing(100)]
    costs = [cost for _, cost in kept]
    assert sum(costs) / len(costs) < first / 10
    assert max(costs) < 1.5 * first
    assert any(isinstance(unpack_manifest(keeper.objects.contents[name]), Manifest) for name, _ in kept)


def growing(turns: int) -> Iterator[Files]:
    """One more file that is another one, at each turn."""
    changed: dict[str, bytes] = {}
    for turn in range(turns):
        changed[f"{turn:04}"] = b"%d" % turn
        yield changed


async def test_a_change_of_what_is_no_whole_manifest_is_told() -> None:
    keeper = Keeper()
    await keeper.keep(snapshot(random_files(10, 10)))
    name, _ = await keeper.keep(snapshot({**random_files(10, 10), "0003": b"new"}))
    change = unpack_manifest(keeper.objects.contents[name])
    assert isinstance(change, ManifestChange)
    for damaged in (
        change.model_copy(update={"whole": name}),
        change.model_copy(update={"packs": change.packs[:1]}),
    ):
        with pytest.raises((BadInput, ValueError)):
            await look_up(keeper.objects, await keeper.objects.put(pack_manifest(damaged)))


async def test_many_small_files_are_two_objects() -> None:
    keeper = Keeper()
    await keeper.keep(snapshot(random_files(1000, 10)))
    assert len(keeper.objects.contents) == 2


async def test_reading_costs_at_most_twice_what_is_there() -> None:
    """Each time one file stays and thirty others are written anew, which leaves much in packs that nobody needs."""
    keeper, numbers, files = Keeper(), random.Random(2), dict[str, bytes]()
    for turn in range(40):
        files |= {f"{number:02}": numbers.randbytes(1_000) for number in range(30)}
        files[f"stays-{turn:02}"] = numbers.randbytes(1_000)
        name, _ = await keeper.keep(snapshot(files))
        read = sum(len(keeper.objects.contents[pack.name]) for pack in keeper.base.packs)
        assert read < 2.2 * 1_000 * len(files), "more than twice the contents, with the packs' heads"
    assert await keeper.fetch(name) == snapshot(files)


async def test_what_only_grows_stays_in_few_objects() -> None:
    keeper, numbers, files = Keeper(), random.Random(2), dict[str, bytes]()
    for turn in range(3 * MAX_PACKS):
        files[f"{turn:02}"] = numbers.randbytes(1_000)
        name, cost = await keeper.keep(snapshot(files))
        assert len(keeper.base.packs) <= MAX_PACKS
        assert cost < 30_000
    assert len(keeper.base.packs) == MAX_PACKS
    assert await keeper.fetch(name) == snapshot(files)


async def test_a_repeat_after_a_put_that_failed_is_as_if_nothing_had_been() -> None:
    """The contents are stored and the manifest is not: nothing names them, and the repeat does."""

    class FailingOnce(MemoryObjects):
        left = 1

        async def put(self, data: bytes) -> str:
            if not self.left:
                self.left -= 1
                raise EnvironmentFailed("the store is away")
            self.left -= 1
            return await super().put(data)

    files, failing = snapshot(random_files(3, 10)), FailingOnce()
    with pytest.raises(EnvironmentFailed):
        await keep(failing, files, Snapshot())
    name, _ = await keep(failing, files, Snapshot())
    assert await fetch(failing, name, Snapshot()) == files
    assert len(failing.contents) == 2


@pytest.mark.parametrize("harm", ["missing", "changed"])
async def test_an_object_that_is_missing_or_damaged_is_an_error(harm: str) -> None:
    keeper = Keeper()
    name, _ = await keeper.keep(snapshot({"a": b"content"}))
    for victim in (name, keeper.base.packs[0].name):
        whole = keeper.objects.contents.pop(victim)
        if harm == "changed":
            keeper.objects.contents[victim] = b"damaged"
        with pytest.raises(EnvironmentFailed, match=victim):
            await keeper.fetch(name)
        keeper.objects.contents[victim] = whole
    assert await keeper.fetch(name) == snapshot({"a": b"content"})


async def test_a_content_that_is_nowhere_is_not_made_up() -> None:
    bare = Snapshot(entries=(FileEntry(path="a", size=1, digest=sha256(b"1")),))
    with pytest.raises(BadInput) as caught:
        await keep(MemoryObjects(), bare, Snapshot())
    assert caught.value.field == "a"
    objects = MemoryObjects()
    name = await objects.put(pack_manifest(Manifest(files=bare, places=(-1,))))
    with pytest.raises(BadInput) as caught:
        await fetch(objects, name, Snapshot())
    assert caught.value.field == "a"


async def test_a_content_under_a_strange_digest_is_refused() -> None:
    """Contents are found by their digests: one under another's would stand in every file that has that."""
    forged = Snapshot(entries=(FileEntry(path="a", size=1, digest=sha256(b"1"), content=b"2"),))
    with pytest.raises(BadInput, match="not that of its content"):
        await keep(MemoryObjects(), forged, Snapshot())


async def test_what_is_no_manifest_is_told() -> None:
    objects = MemoryObjects()
    with pytest.raises(BadInput, match="manifest"):
        await look_up(objects, await objects.put(b"something else"))


CONTENTS = {sha256(content): content for content in (b"content" * 100, b"", b"other")}
PACK, MANIFEST = pack_contents(CONTENTS), pack_manifest(Manifest(files=snapshot({"a": b""}), places=(-1,)))


def test_a_pack_comes_back_as_it_was() -> None:
    assert unpack_contents(PACK) == CONTENTS
    assert pack_contents(unpack_contents(PACK)) == PACK


def packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


DAMAGED = (
    b"", b"no gzip", PACK[:-1], PACK[: len(PACK) // 2], PACK + b"x", MANIFEST[:-1], packed(b""), packed(b"no json"),
    packed(b"\xff\xfe"), packed(b"[" * 100_000), packed(canonical({"surprise": 1})),
    packed(bytes(7) + b"\x0a[[\"a\", 9]]x"), packed(b'{"files": {"entries": [{"path": "../up"}]}}'),
    packed(b'{"files": {"entries": [{"path": "a"}]}, "places": []}'),
    packed(b'{"files": {"entries": [{"path": "a"}]}, "places": [0]}'),
)  # fmt: skip


@pytest.mark.parametrize("damaged", DAMAGED)
def test_damage_is_bad_input(damaged: bytes) -> None:
    with pytest.raises(BadInput) as caught:
        unpack_contents(damaged)
    assert caught.value.field == "pack"
    with pytest.raises(BadInput) as caught:
        unpack_manifest(damaged)
    assert caught.value.field == "manifest"


@settings(deadline=None)
@given(st.integers(0, min(len(PACK), len(MANIFEST)) - 1), st.integers(0, 255))
def test_a_changed_byte_never_crashes_it(position: int, value: int) -> None:
    """It is noticed, or it is one of the header that says nothing."""
    with suppress(BadInput):
        assert unpack_contents(PACK[:position] + bytes([value]) + PACK[position + 1 :]) == CONTENTS
    with suppress(BadInput):
        changed = unpack_manifest(MANIFEST[:position] + bytes([value]) + MANIFEST[position + 1 :])
        assert changed == unpack_manifest(MANIFEST)


async def test_others_go_on_while_large_files_are_kept() -> None:
    """A worker that holds its loop for as long as this takes misses the heartbeats of all its episodes."""
    turns, objects = 0, MemoryObjects()
    large = snapshot({"large": random.Random(1).randbytes(2**23)})
    done = asyncio.create_task(keep(objects, large, Snapshot()))
    while not done.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 10
    assert await fetch(objects, done.result()[0], Snapshot()) == large
