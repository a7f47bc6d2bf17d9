"""Indented lines, folded between words where a terminal ends."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ops.cli.output import Output
from ops.cli.visible import visible_cell

LEAST_COLUMNS = 24
"""What a text has at least, however deep it stands on however narrow a terminal."""


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


def show_lines(out: Output, lines: Iterable[Line]) -> None:
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
    from rich.console import Console
    from rich.text import Text

    hang = len(line.mark) or line.hang
    indent = max(0, min(line.indent, width - hang - LEAST_COLUMNS))
    first, *rest = Text(text).wrap(Console(width=width), max(1, width - indent - hang), overflow="fold")
    yield (" " * indent + line.mark + first.plain).rstrip()
    for part in rest:
        yield (" " * (indent + hang) + part.plain).rstrip()
