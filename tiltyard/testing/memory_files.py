"""The files of a sandbox in memory: paths with the same rules as on a disk, and links that are never followed."""

from collections.abc import Iterator, Mapping
from copy import copy
from types import MappingProxyType
from typing import Self

from schemas.base import sha256
from schemas.operation import ReplyCode
from schemas.sandbox import FileEntry, Snapshot, folders_of, work_path
from tiltyard.errors import BadInput

__all__ = ["FileRefused", "MemoryFiles"]


class FileRefused(Exception):
    """A file operation that cannot be; ``reason`` is in the system's own words."""

    def __init__(self, code: ReplyCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code, self.reason = code, reason


class MemoryFiles:
    """All that is below ``/work``. Entries are immutable, so two sandboxes never share what one of them changes.

    ``limit_bytes`` is the size of the place; a write over it is refused with ``no_space``. ``marked_reads`` are the
    marked files that were read, each with the operation.
    """

    def __init__(self, start: Snapshot, limit_bytes: int, marked: Mapping[str, str] = MappingProxyType({})) -> None:
        self.marked_reads: list[tuple[str, str]] = []
        self._marked, self._reader = dict(marked), ""
        self._entries: dict[str, FileEntry] = {}
        self._limit_bytes = limit_bytes
        for entry in start.entries:
            self._begin_with(entry)

    def _begin_with(self, entry: FileEntry) -> None:
        if entry.kind == "file" and entry.content is None:
            raise BadInput("has no content", field=f"start: {entry.path}", fix="send the bytes of every file")
        try:
            self._parents(entry.path)
        except FileRefused as refused:
            raise BadInput(refused.reason, field=f"start: {entry.path}", fix="see what it lies below") from None
        size = len(entry.content or b"")
        digest = sha256(entry.content) if entry.content is not None else ""
        self._entries[entry.path] = entry.model_copy(update={"size": size, "digest": digest})

    def find(self, path: str) -> FileEntry | None:
        """What is at ``path``, links as they are. Raises ``FileRefused`` for a link or a file on the way."""
        work_path(path)
        for parent in folders_of(path):
            self._require_directory(parent)
        return self._entries.get(path)

    def seen_by(self, op_id: str) -> Self:
        """The same files, as this operation reads them: what it reads of marked ones is noted."""
        seen = copy(self)
        seen._reader = op_id
        return seen

    def read(self, path: str) -> bytes:
        content = self._content(path)
        if path in self._marked:
            self.marked_reads.append((self._marked[path], self._reader))
        return content

    def _content(self, path: str) -> bytes:
        found = self.find(path)
        if found is None:
            raise FileRefused("not_found", "No such file or directory")
        if found.kind == "link":
            raise FileRefused("bad_path", "Is a link")
        if found.kind == "directory":
            raise FileRefused("not_a_file", "Is a directory")
        return found.content or b""

    def write(self, path: str, content: bytes, mode: int | None = None) -> None:
        """Write a file in a folder that is there. ``mode``: what it has, or 644 for a new one."""
        self._require_directory(path.rpartition("/")[0], missing_too=True)
        found = self.find(path)
        if found is not None:
            self._content(path)
        used = sum(entry.size for entry in self._entries.values()) - (found.size if found else 0)
        if used + len(content) > self._limit_bytes:
            raise FileRefused("no_space", "No space left on device")
        kept = found.mode if found else 0o644
        self._entries[path] = FileEntry(
            path=path,
            mode=kept if mode is None else mode,
            size=len(content),
            digest=sha256(content),
            content=content,
        )

    def write_with_folders(self, path: str, content: bytes, mode: int) -> None:
        self.find(path)
        self._parents(path)
        self.write(path, content, mode)

    def make_directory(self, path: str) -> None:
        self._parents(f"{path}/x")

    def make_link(self, path: str, target: str) -> None:
        if self.find(path) is not None:
            raise FileRefused("denied", "File exists")
        self._entries[path] = FileEntry(path=path, kind="link", mode=0o777, target=target)

    def remove(self, path: str) -> None:
        """Remove a file or a link, and never what it points to."""
        found = self.find(path)
        if found is None:
            raise FileRefused("not_found", "No such file or directory")
        if found.kind == "directory":
            raise FileRefused("not_a_file", "Is a directory")
        del self._entries[path]
        self._marked.pop(path, None)

    def names(self) -> list[str]:
        """What lies directly in the working directory, as ``ls`` lists it."""
        return sorted(path for path in self._entries if "/" not in path and not path.startswith("."))

    def snapshot(self, known: Mapping[str, str]) -> Snapshot:
        return Snapshot(entries=tuple(self._without_known(known)))

    def _without_known(self, known: Mapping[str, str]) -> Iterator[FileEntry]:
        for path, entry in sorted(self._entries.items()):
            is_known = entry.kind == "file" and known.get(path) == entry.digest
            yield entry.model_copy(update={"content": None}) if is_known else entry

    def _parents(self, path: str) -> None:
        for parent in folders_of(path):
            self._require_directory(parent)
            self._entries.setdefault(parent, FileEntry(path=parent, kind="directory", mode=0o755))

    def _require_directory(self, path: str, missing_too: bool = False) -> None:
        found = self._entries.get(path)
        if found is None and path and missing_too:
            raise FileRefused("not_found", "No such file or directory")
        if found is not None and found.kind != "directory":
            code: ReplyCode = "bad_path" if found.kind == "link" else "not_a_file"
            raise FileRefused(code, "Not a directory")
