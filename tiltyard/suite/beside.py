"""Files that lie beside a task file, put into the task: ``{from_folder: PATH}`` and ``{from_file: PATH}``.

Paths are relative to the task file's folder, and lead to regular files of text below it. What they hold is put in
after rendering, so that nothing in it is read as an expression.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from schemas.base import JsonObject, JsonValue
from schemas.sandbox import work_path
from tiltyard.errors import BadTask

FILE, FOLDER, UNDER = "from_file", "from_folder", "under"

MAX_FILE_BYTES = 256 * 1024
"""Of one file beside a task file."""

MAX_FILES = 200
"""In one folder."""

MAX_FOLDER_BYTES = 1024 * 1024
"""Of one folder's files together."""

LEFT_OUT = ("__pycache__",)
"""Folders that a run of the project leaves behind: never part of a task."""


def fill_in(value: JsonValue, base: Path, problems: list[BadTask], where: str = "") -> JsonValue:
    """``value`` with the contents of the files that it names below ``base``.

    ``{from_file: PATH}`` becomes the file's text, ``{from_folder: PATH}`` a mapping of paths to texts, each below
    ``under`` where that is given. What cannot be read becomes null, and why is added to ``problems``.
    """
    if isinstance(value, list):
        return [fill_in(item, base, problems, f"{where}.{at}") for at, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if not {FILE, FOLDER} & value.keys():
        return {key: fill_in(item, base, problems, f"{where}.{key}".lstrip(".")) for key, item in value.items()}
    try:
        return _contents(value, base, where)
    except BadTask as error:
        problems.append(BadTask(error.message, field=f"{where}.{error.field}".strip("."), fix=error.fix))
        return None


def _contents(named: JsonObject, base: Path, where: str) -> JsonValue:
    if named.keys() == {FILE}:
        text = _text(_below(named[FILE], base, FILE), FILE)
        # A reference's strings are filled in once more when they are played; a file's text stands for itself.
        return text.replace("${", "$${") if where.startswith("references.") else text
    if FOLDER not in named or not named.keys() <= {FOLDER, UNDER}:
        raise BadTask(f"stands with other keys: {', '.join(sorted(named))}", fix="write it alone, or with under")
    under = named.get(UNDER, "")
    if not isinstance(under, str) or (under and not is_path(under)):
        raise BadTask("is no path below the working directory", field=UNDER, fix="such as hidden_tests")
    return dict(_files(_below(named[FOLDER], base, FOLDER), under))


def is_path(text: str) -> bool:
    """Whether it names a file below a folder."""
    try:
        work_path(text)
    except ValueError:
        return False
    return True


def _below(path: JsonValue, base: Path, key: str) -> Path:
    """The place of ``path``, which no link on the way leads out of."""
    if not isinstance(path, str) or not is_path(path):
        raise BadTask(
            "is no path below the task file's folder", field=key, fix="write it relative, without '.' and '..'"
        )
    place = base
    for part in PurePosixPath(path).parts:
        place = place / part
        if place.is_symlink():
            raise BadTask(f"{path} goes through a link", field=key, fix="put the files there themselves")
    if not (place.is_dir() if key == FOLDER else place.is_file()):
        what = "folder" if key == FOLDER else "file"
        raise BadTask(
            f"there is no {what} {path} beside the task file", field=key, fix="add it, or correct the path"
        )
    return place


def _files(folder: Path, under: str) -> Iterator[tuple[str, str]]:
    """(path in the sandbox, text) of each file, sorted."""
    total = 0
    for count, file in enumerate(_walk(folder), start=1):
        if count > MAX_FILES:
            raise BadTask(f"{folder.name} holds over {MAX_FILES} files", field=FOLDER, fix="make it smaller")
        text = _text(file, FOLDER)
        total += len(text.encode())
        if total > MAX_FOLDER_BYTES:
            raise BadTask(
                f"{folder.name} is over {MAX_FOLDER_BYTES // 1024} KiB", field=FOLDER, fix="make it smaller"
            )
        yield (PurePosixPath(under) / file.relative_to(folder).as_posix()).as_posix(), text


def _walk(folder: Path) -> Iterator[Path]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            if entry.name not in LEFT_OUT:
                yield from _walk(Path(entry.path))
        elif stat.S_ISREG(mode):
            yield Path(entry.path)
        else:
            raise BadTask(f"{entry.name} is a link, or no file", field=FOLDER, fix="put the file there itself")


def _text(file: Path, key: str) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise BadTask(f"{file.name} is over {MAX_FILE_BYTES // 1024} KiB", field=key, fix="make it smaller")
        return data.decode()
    except UnicodeDecodeError:
        raise BadTask(f"{file.name} is no UTF-8 text", field=key, fix="a task's files are text") from None
    except OSError as error:
        why = f"{file.name} cannot be read: {error.strerror}"
        raise BadTask(why, field=key, fix="make it a file that you can read") from None
