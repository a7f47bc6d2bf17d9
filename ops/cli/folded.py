"""Indented lines, folded between words where a terminal ends. Commands stay whole, for copying."""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ops.cli.called import commands
from ops.cli.visible import visible_cell

if TYPE_CHECKING:
    from ops.cli.output import Output

LEAST_COLUMNS = 24
"""What a text has at least, however deep it stands on however narrow a terminal."""

GLUE = "\ue000"
"""Stands for a space at which no line ends."""

SEAM = "\ue001 "
"""Stands for nothing, at a place where a line may end."""

UNIT = re.compile(r"(?<=[0-9]) (?=s\b)")
"""Between seconds and their unit."""

MEMBERS = re.compile(r'(?<=,)(?=["{\[])')
"""Between members of JSON."""


class Line(NamedTuple):
    """One line: ``mark`` and ``text`` after ``indent`` columns.

    What does not fit goes on ``hang`` columns further in, or below the text, where there is a mark. A ``whole``
    line is left to the terminal, for copying.
    """

    text: str
    indent: int = 0
    hang: int = 2
    mark: str = ""
    whole: bool = False


def indented(lines: Iterable[Line], by: int = 2) -> Iterator[Line]:
    """The lines further to the right."""
    return (line._replace(indent=line.indent + by) for line in lines)


def section(title: str, lines: Iterable[Line]) -> Iterator[Line]:
    """A heading and what stands below it; nothing where that is empty."""
    below = list(indented(lines))
    if below:
        yield from (Line(""), Line(title), *below)


def prose(text: str) -> Iterator[Line]:
    """A message of one or more lines, each with the indent that it has."""
    for line in text.split("\n"):
        said = line.lstrip(" ")
        yield Line(said, len(line) - len(said))


def show_lines(out: "Output", lines: Iterable[Line]) -> None:
    """Print them, folded on a terminal and whole elsewhere. Nothing with ``--json``."""
    if out.json:
        return
    console = out.console()
    told = list(folded(lines, None if console.soft_wrap else console.width))
    if told:
        out.show("\n".join(told), fold=False)


def folded(lines: Iterable[Line], width: int | None) -> Iterator[str]:
    """The lines as they are printed. Each begins a new one and is no longer than ``width``, whatever is in it."""
    for line in lines:
        text = visible_cell(line.text)
        plain = " " * line.indent + line.mark + text
        if width is None or line.whole or _fits(plain, width):
            yield plain.rstrip()
        else:
            yield from _folded(text, line, width)


def _fits(text: str, width: int) -> bool:
    from rich.cells import cell_len

    return 2 * len(text) <= width or (len(text) <= width and cell_len(text) <= width)


def _folded(text: str, line: Line, width: int) -> Iterator[str]:
    hang = len(line.mark) or line.hang
    indent = max(0, min(line.indent, width - hang - LEAST_COLUMNS))
    first, *rest = _parts(text, max(1, width - indent - hang))
    yield (" " * indent + line.mark + first).rstrip()
    for part in rest:
        yield (" " * (indent + hang) + part).rstrip()


def _parts(text: str, width: int) -> list[str]:
    """The text in parts that are no wider. A command in it is in one of them, or is one where it is wider."""
    parts, before = list[str](), ""
    for number, piece in enumerate(commands().split(text)):
        if number % 2 and not _fits(piece, width):
            parts += [*_wrapped(before, width), piece]
            before = ""
        else:
            before += piece.replace(" ", GLUE) if number % 2 else piece.lstrip(" ") if not before else piece
    return [*parts, *_wrapped(before, width)] or [""]


def _wrapped(text: str, width: int) -> list[str]:
    from rich.console import Console
    from rich.text import Text

    if not text:
        return []
    found = Text(UNIT.sub(GLUE, _seamed(text, width))).wrap(Console(width=width), width, overflow="fold")
    return [part.plain.replace(GLUE, " ").replace(SEAM, "").replace(SEAM.strip(), "") for part in found]


def _seamed(text: str, width: int) -> str:
    """With seams in words that no line has room for, so that they are not broken just anywhere; commands, which
    have glue, have none."""
    too_long = re.compile(rf"[^\s{GLUE}]{{{width + 1},}}")
    return too_long.sub(lambda word: MEMBERS.sub(SEAM, word[0]), text)
