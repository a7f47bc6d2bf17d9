"""Files of a sandbox as values: what it starts with, what has changed, and how they are kept."""

import gzip
import zlib
from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from schemas.base import canonical, sha256
from schemas.evidence import FileChange
from schemas.sandbox import FileEntry, SandboxPlan, Snapshot
from tiltyard.errors import BadInput

MAX_SNAPSHOT_BYTES = 2**31
"""Of a packed snapshot, when it is opened: more than base64 makes of the largest disk."""


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


def pack_snapshot(snapshot: Snapshot) -> bytes:
    """A snapshot as an object; equal ones are equal bytes."""
    return gzip.compress(canonical(snapshot), compresslevel=1, mtime=0)


def unpack_snapshot(data: bytes) -> Snapshot:
    """The snapshot of ``pack_snapshot``. Raises ``BadInput``."""
    try:
        opener = zlib.decompressobj(wbits=31)
        text = opener.decompress(data, MAX_SNAPSHOT_BYTES)
        if not opener.eof or opener.unused_data:
            raise BadInput("is cut, or larger than any sandbox's disk", field="snapshot", fix="fetch it again")
        return Snapshot.model_validate_json(text)
    except (zlib.error, ValidationError) as error:
        raise BadInput(f"is not a snapshot: {error}", field="snapshot") from None
