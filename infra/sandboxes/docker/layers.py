"""Layers of images: tar archives whose bytes follow from what went into them, whoever builds them and when."""

import io
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

USR_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders of the root that are links into ``/usr``, whatever a package calls them."""

LEFT_OUT = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/lintian",
    "var/cache",
)

MODE = 0o1777
"""The bits of a mode that are kept. In a sandbox no program gains rights by its owner."""


class Member(NamedTuple):
    """One file, folder or link of a layer. ``content`` is a file's."""

    about: tarfile.TarInfo
    content: bytes = b""


Members = dict[str, Member]
"""The members of a layer by their paths, which are relative."""


def read(archive: bytes, members: Members, below: str = "") -> None:
    """Put what a tar archive holds into ``members``; what is there already is replaced, folders excepted.

    Its paths are taken as ``below`` a folder. Devices and sockets are left out. Raises ``ValueError`` for a path
    that leads out of the root.
    """
    with tarfile.open(fileobj=io.BytesIO(archive)) as source:
        for about in source:
            path = _path_of(f"{below}/{about.name}")
            if not path or path.startswith(LEFT_OUT) or (about.isdir() and path in members):
                continue
            if about.isreg():
                stored = source.extractfile(about)
                assert stored is not None
                members[path] = Member(_plain(about, path), stored.read())
            elif about.isdir() or about.issym():
                members[path] = Member(_plain(about, path))
            elif about.islnk():
                members[path] = Member(_plain(about, path, _path_of(f"{below}/{about.linkname}")))


def _path_of(name: str) -> str:
    parts = PurePosixPath(name.lstrip("/")).parts
    if ".." in parts:
        raise ValueError(f"the path {name!r} leads out of the root")
    merged = ("usr", *parts) if len(parts) > 1 and parts[0] in USR_MERGED else parts
    return "/".join(merged)


def _plain(about: tarfile.TarInfo, path: str, link: str | None = None) -> tarfile.TarInfo:
    """What is kept of a member: no owner, no time, no rights that a program gains by being run."""
    plain = tarfile.TarInfo(path)
    plain.type, plain.mode, plain.size = about.type, about.mode & MODE, about.size if about.isreg() else 0
    plain.linkname = about.linkname if link is None else link
    return plain


def file(path: str, content: bytes, mode: int = 0o644) -> Member:
    """A file of our own."""
    about = tarfile.TarInfo(path)
    about.mode, about.size = mode, len(content)
    return Member(about, content)


def folder(path: str, mode: int = 0o755) -> Member:
    """A folder of our own."""
    about = tarfile.TarInfo(path)
    about.type, about.mode = tarfile.DIRTYPE, mode
    return Member(about)


def link(path: str, target: str) -> Member:
    """A symbolic link of our own."""
    about = tarfile.TarInfo(path)
    about.type, about.mode, about.linkname = tarfile.SYMTYPE, 0o777, target
    return Member(about)


def layer(members: Members) -> bytes:
    """The archive, in the order of the paths; hard links come after what they name."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as target:
        for member in _ordered(members):
            target.addfile(member.about, io.BytesIO(member.content))
    return out.getvalue()


def _ordered(members: Members) -> Iterator[Member]:
    def last(item: tuple[str, Member]) -> tuple[bool, str]:
        return item[1].about.islnk(), item[0]

    return (member for _, member in sorted(members.items(), key=last))


def of_archives(archives: Iterable[bytes]) -> Members:
    """All that some archives hold; later ones replace what earlier ones have."""
    members: Members = {}
    for archive in archives:
        read(archive, members)
    return members
