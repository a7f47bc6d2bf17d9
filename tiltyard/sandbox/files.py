"""Files of a sandbox as values: what it starts with, and what has changed."""

from collections.abc import Iterator, Mapping

from schemas.base import sha256
from schemas.evidence import FileChange
from schemas.sandbox import FileEntry, SandboxPlan, Snapshot


def start_of(plan: SandboxPlan) -> Snapshot:
    """The files that a task's sandbox begins with."""
    contents = {path: text.encode("utf-8", "surrogatepass") for path, text in plan.files.items()}
    return Snapshot(
        entries=tuple(
            FileEntry(path=path, size=len(content), digest=sha256(content), content=content)
            for path, content in sorted(contents.items())
        )
    )


def marks_of(plan: SandboxPlan, start: Snapshot) -> dict[str, str]:
    """The marked files among those that an incarnation begins with: by their paths, each with the task's path.

    An agent may have moved or copied one before: what holds the same bytes is marked as well, unless it is empty.
    """
    marked = {sha256(plan.files[path].encode("utf-8", "surrogatepass")): path for path in plan.marked}
    empty = sha256(b"")
    by_path = {path: path for path in plan.marked}
    named = {
        entry.path: by_path.get(entry.path) or (marked.get(entry.digest, "") if entry.digest != empty else "")
        for entry in start.entries
        if entry.kind == "file"
    }
    return {path: name for path, name in named.items() if name}


def digests(snapshot: Snapshot) -> dict[str, str]:
    """Digests of all files by path."""
    return {entry.path: entry.digest for entry in snapshot.entries if entry.kind == "file"}


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
