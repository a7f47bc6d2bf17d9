"""Files of a sandbox as values: what it starts with, what has changed, and how they are kept."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise

from schemas.base import canonical, sha256
from schemas.evidence import FileChange
from schemas.sandbox import FileEntry, SandboxPlan, Snapshot
from tiltyard.errors import BadInput
from tiltyard.ports import Objects

MAX_SNAPSHOT_BYTES = 2**31
"""Of a packed snapshot, when it is opened: more than the largest disk, with what is said of its files."""

HEAD_BYTES = 8


def start_of(plan: SandboxPlan) -> Snapshot:
    """The files that a task's sandbox begins with."""
    contents = {path: text.encode("utf-8", "surrogatepass") for path, text in plan.files.items()}
    return Snapshot(
        entries=tuple(
            FileEntry(path=path, size=len(content), digest=sha256(content), content=content)
            for path, content in sorted(contents.items())
        )
    )


def digests(snapshot: Snapshot) -> dict[str, str]:
    """Digests of all files by path."""
    return {entry.path: entry.digest for entry in snapshot.entries if entry.kind == "file"}


def merged(start: Snapshot, kept: Snapshot) -> Snapshot:
    """``kept`` with the contents that it left out because they were those of ``start``.

    Raises ``BadInput`` for a content that neither has.
    """
    known = {entry.path: entry for entry in start.entries}

    def whole(entry: FileEntry) -> FileEntry:
        if entry.kind != "file" or entry.content is not None:
            return entry
        original = known.get(entry.path)
        if original is None or original.digest != entry.digest:
            raise BadInput("its content is neither in the checkpoint nor the task's", field=entry.path)
        return entry.model_copy(update={"content": original.content})

    return kept.model_copy(update={"entries": tuple(whole(entry) for entry in kept.entries)})


def changes(start: Snapshot, end: Snapshot) -> tuple[FileChange, ...]:
    """All differences of files and links, by path. Folders count where they stand in the place of a file.

    Modes are not compared: a file is what it holds.
    """
    before = {entry.path: entry for entry in start.entries}
    after = {entry.path: entry for entry in end.entries if entry.kind != "directory" or entry.path in before}
    return tuple(_differences(before, after))


def _differences(before: Mapping[str, FileEntry], after: Mapping[str, FileEntry]) -> Iterator[FileChange]:
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        was = old.digest if old else ""
        if new is None:
            yield FileChange(path=path, change="deleted", before=was)
        elif old is None or _held(old) != _held(new):
            yield FileChange(
                path=path,
                change="updated" if old else "created",
                kind=new.kind,
                before=was,
                after=new.digest,
                size=new.size,
                mode=new.mode,
            )


def _held(entry: FileEntry) -> tuple[str, str, str]:
    return entry.kind, entry.digest, entry.target


async def keep(objects: Objects, snapshot: Snapshot) -> str:
    """The name of an object with these files. They may be large: other episodes go on meanwhile."""
    return await objects.put(await asyncio.to_thread(pack_snapshot, snapshot))


async def fetch(objects: Objects, name: str) -> Snapshot:
    """The files that ``keep`` named so. Raises ``BadInput`` for an object that is something else."""
    return await asyncio.to_thread(unpack_snapshot, await objects.get(name))


def pack_snapshot(snapshot: Snapshot) -> bytes:
    """A snapshot as an object; equal ones are equal bytes.

    Compressed: a length, that many bytes of JSON, and after it the contents, whose numbers the JSON lists.
    """
    there = [number for number, entry in enumerate(snapshot.entries) if entry.content is not None]
    bare = snapshot.model_dump(mode="json", exclude={"entries": {"__all__": {"content"}}})
    head = canonical({"snapshot": bare, "contents": there})
    contents = (snapshot.entries[number].content or b"" for number in there)
    return gzip.compress(
        b"".join((len(head).to_bytes(HEAD_BYTES, "big"), head, *contents)), compresslevel=1, mtime=0
    )


def unpack_snapshot(data: bytes) -> Snapshot:
    """The snapshot of ``pack_snapshot``. Raises ``BadInput``."""
    try:
        opener = zlib.decompressobj(wbits=31)
        whole = opener.decompress(data, MAX_SNAPSHOT_BYTES)
        if not opener.eof or opener.unused_data:
            raise BadInput("is cut, or larger than any sandbox's disk", field="snapshot", fix="fetch it again")
        return _opened(whole)
    except (zlib.error, ValueError, TypeError, LookupError, RecursionError) as error:
        raise BadInput(f"is not a snapshot: {error}", field="snapshot") from None


def _opened(whole: bytes) -> Snapshot:
    start = HEAD_BYTES + int.from_bytes(whole[:HEAD_BYTES], "big")
    head = json.loads(whole[HEAD_BYTES:start])
    entries = list(Snapshot.model_validate(head["snapshot"]).entries)
    there = head["contents"]
    places = accumulate((entries[number].size for number in there), initial=start)
    contents = [whole[first:end] for first, end in pairwise(places)]
    if start + sum(map(len, contents)) != len(whole):
        raise ValueError("its contents are not as long as its files")
    for number, content in zip(there, contents, strict=True):
        entries[number] = entries[number].model_copy(update={"content": content})
    return Snapshot(entries=tuple(entries), skipped=tuple(head["snapshot"].get("skipped", ())))
