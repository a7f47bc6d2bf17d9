"""Files of a sandbox as objects: each time costs what has changed since the last time.

What is kept is a manifest, which names all files by their digests, and packs with the contents. A new manifest
takes over the packs of the last one and adds one pack, with what is in none of them, so that many small files are
one object. It is stored as what it has other than an earlier one that was stored whole, while that is little. So
files are read from two manifests and their packs at most, however often they were kept before.
"""

import asyncio
import gzip
import heapq
import json
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from schemas.base import canonical, sha256
from schemas.checkpoint import Manifest, ManifestChange, Pack
from schemas.sandbox import FileEntry, Snapshot
from tiltyard.errors import BadInput
from tiltyard.ports import Objects
from tiltyard.sandbox.files import digests

MAX_PACKS = 16
"""Objects that the contents of one manifest lie in. Of more, the smallest is not taken over: what is needed of it
is packed anew."""

MAX_OBJECT_BYTES = 2**31
"""Of a manifest or a pack, when it is opened: more than the largest disk, with what is said of its files."""

HEAD_BYTES = 8

STORED: TypeAdapter[Manifest | ManifestChange] = TypeAdapter(Manifest | ManifestChange)

EMPTY = Manifest()
"""The manifest before the first one."""


class WholeManifest(NamedTuple):
    """A manifest that is stored whole, and its name."""

    name: str
    manifest: Manifest


def known_to(start: Snapshot, base: Manifest) -> dict[str, str]:
    """Digests by path of contents that need not be sent again: the task's, and those in packs that stay."""
    there = _there(start, base)
    return digests(start) | {path: digest for path, digest in digests(base.files).items() if digest in there}


async def keep(
    objects: Objects,
    snapshot: Snapshot,
    start: Snapshot,
    base: Manifest = EMPTY,
    whole: WholeManifest | None = None,
) -> tuple[str, Manifest]:
    """(the name of the manifest, the manifest) of these files. Contents that ``known_to`` has may be left out.

    With a ``whole`` one it is stored as a change of that, where it is a small one. Again: the same. Nothing is
    named before all that it needs is stored. Raises ``BadInput`` for a file whose content is nowhere, or is not
    what its digest says. The files may be large: other episodes go on meanwhile.
    """
    new = await asyncio.to_thread(_new_contents, snapshot, start, base)
    added: dict[str, Pack] = {}
    if new:
        name = await objects.put(await asyncio.to_thread(pack_contents, new))
        added = dict.fromkeys(new, Pack(name=name, size_bytes=sum(map(len, new.values()))))
    manifest = await asyncio.to_thread(_manifest, snapshot, base, added)
    stored = await asyncio.to_thread(lambda: pack_manifest(_stored(manifest, whole)))
    return await objects.put(stored), manifest


async def look_up(objects: Objects, name: str) -> Manifest:
    """The manifest that ``keep`` named so, which has no contents. Raises ``BadInput`` for something else."""
    return (await look_up_whole(objects, name))[0]


async def look_up_whole(objects: Objects, name: str) -> tuple[Manifest, WholeManifest]:
    """(the manifest that ``keep`` named so, the one that it was stored as a change of, which may be itself)."""
    found = await asyncio.to_thread(unpack_manifest, await objects.get(name))
    if isinstance(found, Manifest):
        return found, WholeManifest(name, found)
    base = await asyncio.to_thread(unpack_manifest, await objects.get(found.whole))
    if not isinstance(base, Manifest):
        raise BadInput("is a change of something that is no whole manifest", field="manifest")
    return await asyncio.to_thread(_changed, base, found), WholeManifest(found.whole, base)


def _stored(manifest: Manifest, whole: WholeManifest | None) -> Manifest | ManifestChange:
    """As it is stored. Where one more entry differs each time, changes and whole ones cost as much in all when a
    whole one is stored at so many entries as the square root of twice the files."""
    if whole is None:
        return manifest
    before, now = _placed(whole.manifest), _placed(manifest)
    differing = [place for path, place in now.items() if before.get(path) != place]
    gone = tuple(path for path in before if path not in now)
    if (len(differing) + len(gone)) ** 2 > 2 * len(now):
        return manifest
    numbers = {"": -1} | {pack.name: number for number, pack in enumerate(manifest.packs)}
    return ManifestChange(
        whole=whole.name,
        entries=tuple(entry for entry, _ in differing),
        places=tuple(numbers[pack] for _, pack in differing),
        gone=gone,
        skipped=manifest.files.skipped,
        packs=manifest.packs,
    )


def _placed(manifest: Manifest) -> dict[str, tuple[FileEntry, str]]:
    """By path each entry and the name of its pack, which is empty where it lies in none."""
    names = (*(pack.name for pack in manifest.packs), "")
    pairs = zip(manifest.files.entries, manifest.places, strict=True)
    return {entry.path: (entry, names[place]) for entry, place in pairs}


def _changed(whole: Manifest, change: ManifestChange) -> Manifest:
    """Raises ``BadInput`` for an entry whose pack the change has not."""
    numbers = {"": -1} | {pack.name: number for number, pack in enumerate(change.packs)}
    names = (*(pack.name for pack in change.packs), "")
    changes = zip(change.entries, change.places, strict=True)
    placed = _placed(whole) | {entry.path: (entry, names[place]) for entry, place in changes}
    kept = [placed[path] for path in sorted(placed.keys() - set(change.gone))]
    if lost := next((pack for _, pack in kept if pack not in numbers), None):
        raise BadInput(f"has no pack {lost}", field="manifest")
    files = Snapshot(entries=tuple(entry for entry, _ in kept), skipped=change.skipped)
    return Manifest(files=files, packs=change.packs, places=tuple(numbers[pack] for _, pack in kept))


async def fetch(objects: Objects, name: str, start: Snapshot) -> Snapshot:
    """The files that ``keep`` named so, whole.

    Raises ``BadInput`` for an object that is something else, or a content that is nowhere.
    """
    manifest = await look_up(objects, name)
    packed = await asyncio.gather(*(objects.get(pack.name) for pack in manifest.packs))
    return await asyncio.to_thread(_whole, manifest.files, packed, start)


def _there(start: Snapshot, base: Manifest) -> set[str]:
    """Digests of contents that the next manifest finds."""
    return {*digests(start).values(), *_taken_over(base)}


def _taken_over(base: Manifest) -> dict[str, Pack]:
    """By digest the packs that stay as they are: at least half of each is needed, so that reading costs at most
    twice what is there, and one more still fits beside them."""
    placed = {
        entry.digest: (base.packs[place], entry.size)
        for entry, place in zip(base.files.entries, base.places, strict=True)
        if place >= 0
    }
    needed_bytes: Counter[Pack] = Counter()
    for pack, size in placed.values():
        needed_bytes[pack] += size
    full = (pack for pack in base.packs if needed_bytes[pack] * 2 >= pack.size_bytes)
    stay = set(heapq.nlargest(MAX_PACKS - 1, full, key=needed_bytes.__getitem__))
    return {digest: pack for digest, (pack, _) in placed.items() if pack in stay}


def _manifest(snapshot: Snapshot, base: Manifest, added: Mapping[str, Pack]) -> Manifest:
    stored = {**_taken_over(base), **added}
    there = [stored.get(entry.digest) if entry.kind == "file" else None for entry in snapshot.entries]
    packs = tuple(dict.fromkeys(pack for pack in there if pack is not None))
    numbers = {None: -1} | {pack: number for number, pack in enumerate(packs)}
    bare = tuple(_bare(entry) for entry in snapshot.entries)
    files = snapshot.model_copy(update={"entries": bare})
    return Manifest(files=files, packs=packs, places=tuple(numbers[pack] for pack in there))


def _bare(entry: FileEntry) -> FileEntry:
    return entry if entry.content is None else entry.model_copy(update={"content": None})


def _new_contents(snapshot: Snapshot, start: Snapshot, base: Manifest) -> dict[str, bytes]:
    """Contents by digest that are not there yet, each once."""
    there, new = _there(start, base), dict[str, bytes]()
    for entry in snapshot.entries:
        if entry.kind != "file" or entry.digest in there:
            continue
        if entry.content is None:
            raise BadInput("its content is neither sent nor kept nor the task's", field=entry.path)
        if entry.digest != sha256(entry.content):
            raise BadInput("its digest is not that of its content", field=entry.path)
        new[entry.digest] = entry.content
    return dict(sorted(new.items()))


def _whole(files: Snapshot, packed: Sequence[bytes], start: Snapshot) -> Snapshot:
    contents = {entry.digest: entry.content for entry in start.entries if entry.kind == "file"}
    for data in packed:
        contents |= unpack_contents(data)

    def filled(entry: FileEntry) -> FileEntry:
        if entry.kind != "file":
            return entry
        if entry.digest not in contents:
            raise BadInput("its content is neither in what was kept nor the task's", field=entry.path)
        return entry.model_copy(update={"content": contents[entry.digest]})

    return files.model_copy(update={"entries": tuple(map(filled, files.entries))})


def pack_manifest(manifest: Manifest | ManifestChange) -> bytes:
    """A manifest, or a change of one, as an object; equal ones are equal bytes."""
    return gzip.compress(canonical(manifest), compresslevel=1, mtime=0)


def unpack_manifest(data: bytes) -> Manifest | ManifestChange:
    """What was given to ``pack_manifest``. Raises ``BadInput``."""
    try:
        return STORED.validate_json(_opened(data, "manifest"))
    except ValidationError as error:
        raise BadInput(f"is not a manifest of files: {error}", field="manifest") from None


def pack_contents(contents: Mapping[str, bytes]) -> bytes:
    """Contents as an object; equal ones in the same order are equal bytes.

    Compressed: a length, that many bytes of JSON with each digest and size, and after it the contents.
    """
    head = canonical([[digest, len(content)] for digest, content in contents.items()])
    parts = (len(head).to_bytes(HEAD_BYTES, "big"), head, *contents.values())
    return gzip.compress(b"".join(parts), compresslevel=1, mtime=0)


def unpack_contents(data: bytes) -> dict[str, bytes]:
    """The contents of ``pack_contents``. Raises ``BadInput``."""
    whole = _opened(data, "pack")
    try:
        first = HEAD_BYTES + int.from_bytes(whole[:HEAD_BYTES], "big")
        names = [(str(digest), int(size)) for digest, size in json.loads(whole[HEAD_BYTES:first])]
        places = list(accumulate((size for _, size in names), initial=first))
        if places[-1] != len(whole) or any(size < 0 for _, size in names):
            raise ValueError("its contents are not as long as it says")
        contents = (whole[begin:end] for begin, end in pairwise(places))
        return {digest: content for (digest, _), content in zip(names, contents, strict=True)}
    except (ValueError, TypeError, RecursionError) as error:
        raise BadInput(f"is not a pack of contents: {error}", field="pack") from None


def _opened(data: bytes, field: str) -> bytes:
    try:
        opener = zlib.decompressobj(wbits=31)
        whole = opener.decompress(data, MAX_OBJECT_BYTES)
    except zlib.error as error:
        raise BadInput(f"cannot be opened: {error}", field=field) from None
    if not opener.eof or opener.unused_data:
        raise BadInput("is cut, or larger than any sandbox's disk", field=field, fix="fetch it again")
    return whole
