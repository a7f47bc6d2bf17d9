"""Pins as files: YAML in the dialect of task files, or JSON for what is large, in a folder ``pinned``."""

import os
from errno import ENOTDIR
from pathlib import Path
from shlex import join
from shutil import copymode
from tempfile import mkstemp

from pydantic import ValidationError

from schemas.base import canonical
from schemas.pin import SEALED, Pin
from tiltyard.errors import BadInput, BadTask
from tiltyard.reopen.pinning import fields_of, seals
from tiltyard.suite.explain import explain, first_of, joined
from tiltyard.suite.families import PINNED, Suite
from tiltyard.suite.reading import MAX_FILE_BYTES, READERS, Advice
from tiltyard.suite.writing import escaped, yaml_of

ADVICE = Advice(mapping="pin the episode again", smaller="pin the episode again as JSON, with --to FILE.json")


def text_of(pin: Pin, suffix: str) -> bytes:
    """What a pin's file holds. Raises ``BadInput`` for a pin that is too large for YAML."""
    fields = fields_of(pin)
    if suffix == ".json":
        return escaped(canonical(fields).decode("utf-8", "surrogatepass")).encode() + b"\n"
    data = yaml_of(fields).encode()
    if len(data) > MAX_FILE_BYTES:
        why = f"the pin has {len(data) // 1024} KiB, and YAML is read up to {MAX_FILE_BYTES // 1024} KiB"
        raise BadInput(why, field=pin.name, fix="write it as JSON, with --to FILE.json")
    return data


def write_pin(file: Path, pin: Pin, *, replace: bool = False) -> None:
    """Write a pin where no file is, or in the place of one with ``replace``. Raises ``BadInput``.

    A file that is there stays whole until the new one is; a write that fails leaves nothing behind.
    """
    if file.suffix not in READERS:
        raise BadInput("is no name for a pin", field=str(file), fix=f"end it in {' or '.join(READERS)}")
    data = text_of(pin, file.suffix)
    try:
        _make_folder(file.parent)
        if replace:
            _replace(file.resolve(), data)
        else:
            _write_new(file, data)
    except FileExistsError:
        raise BadInput(
            "is there already", field=str(file), fix="give another --name or --to, or remove it"
        ) from None
    except OSError as error:
        raise BadInput(
            f"cannot be written: {error.strerror}", field=str(file), fix="choose another place"
        ) from None


def _make_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), folder)
    folder.mkdir(parents=True, exist_ok=True)


def _write_new(file: Path, data: bytes) -> None:
    """Take the name, which nobody else then can, and put the pin in its place."""
    file.open("xb").close()
    try:
        _replace(file, data)
    except BaseException:
        file.unlink()
        raise


def _replace(file: Path, data: bytes) -> None:
    """Write aside, flush to disk, rename; who may read it stays as it is."""
    descriptor, aside = mkstemp(dir=file.parent, prefix=".writing-")
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        copymode(file, aside)
        os.replace(aside, file)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def read_pin(file: Path, shown: str = "", *, edited: bool = False) -> Pin:
    """The pin that a file holds; ``shown`` is the file's name in errors. Raises ``BadTask`` naming the field.

    ``edited``: take it as it is, also where a part is not what was sealed.
    """
    name = shown or str(file)
    if file.suffix not in READERS:
        raise BadTask("is no pin", field=name, fix=f"pins end in {' or '.join(READERS)}")
    fields = READERS[file.suffix](file, name, ADVICE)
    try:
        pin = Pin.model_validate(fields)
    except ValidationError as error:
        first = first_of(explain(error))
        fix = first.fix or "mend it there, or pin the episode again"
        raise BadTask(first.message, field=joined(name, first.field), fix=fix) from None
    found = seals(fields)
    for part in SEALED:
        if not edited and pin.sealed.get(part) != found[part]:
            raise BadTask("is not what was pinned: it was edited", field=joined(name, part), fix=_edited_fix(file))
    return pin


def _edited_fix(file: Path) -> str:
    again = join(("tiltyard", "tasks", "check", str(file), "--pin-again"))
    return f"take the edit back, or play it as it is now and keep that: `{again}`"


def is_pin(file: Path) -> bool:
    """Whether a file is one by its place."""
    return file.resolve().parent.name == PINNED and file.suffix in READERS


def pins_in(folder: Path) -> list[Path]:
    """The pins of a folder, by name."""
    return sorted(file for suffix in READERS for file in folder.glob(f"*{suffix}"))


def pins_at(place: Path) -> list[Path]:
    """The pins that a path names by itself: one of them, a folder of them, or those of a suite's folder."""
    if place.is_file():
        return [place] if is_pin(place) else []
    return pins_in(place if place.resolve().name == PINNED else place / PINNED)


def pins_beside(suite: Suite) -> list[Path]:
    """The pins beside the families of a suite, of whichever tasks."""
    roots = dict.fromkeys(family.path.resolve().parent.parent for family in suite.families.values())
    return [file for root in roots for file in pins_in(root / PINNED)]
