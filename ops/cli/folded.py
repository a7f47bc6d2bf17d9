"""Indented lines, folded between words where a terminal ends."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ops.cli.output import Output
from ops.cli.visible import visible_cell

LEAST_COLUMNS = 24
"""What a text has at least, however deep it stands on however narrow a terminal."""


class Line(NamedTuple):
    """One line: ``text`` after ``indent`` columns. What does not fit goes on ``hang`` columns further in."""

    text: str
    indent: int = 0
    hang: int = 2


def show_lines(out: Output, lines: Iterable[Line]) -> None:
    """Print them, folded on a terminal and whole elsewhere."""
    console = out.console()
    out.show("\n".join(folded(lines, None if console.soft_wrap else console.width)), fold=False)


def folded(lines: Iterable[Line], width: int | None) -> Iterator[str]:
    """The lines as they are printed. Each begins a new one and is no longer than ``width``, whatever is in it."""
    for line in lines:
        text = visible_cell(line.text)
        if width is None or line.indent + 2 * len(text) <= width:  # no character takes more than two columns
            yield (" " * line.indent + text).rstrip()
        else:
            yield from _folded(text, line, width)


def _folded(text: str, line: Line, width: int) -> Iterator[str]:
    from rich.console import Console
    from rich.text import Text

    indent = max(0, min(line.indent, width - line.hang - LEAST_COLUMNS))
    first, *rest = Text(text).wrap(Console(width=width), max(1, width - indent - line.hang), overflow="fold")
    yield (" " * indent + first.plain).rstrip()
    for part in rest:
        yield (" " * (indent + line.hang) + part.plain).rstrip()
