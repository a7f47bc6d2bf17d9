"""What a command prints: its answer on standard output, everything else on standard error.

With ``--json`` standard output carries only JSON objects, one a line.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from ops.cli.called import typeable
from ops.cli.folded import folded, prose
from ops.cli.home import home_option, take_home
from ops.cli.visible import visible, visible_cell

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PIPE_COLUMNS = 200
"""Width of tables that no terminal bounds, so that nothing is cut off in a pipe or a log."""

GAP = "  "
LAST_COLUMN = 30
"""Columns that the last column of a table has at least."""

SHORT = {"#EFFECTS": "#EFF", "#DUPLICATES": "#DUP"}
"""Heads of columns where there is little room."""

Result = TypeVar("Result")


class Output:
    """One command's way to its user."""

    def __init__(self, as_json: bool) -> None:
        self.json = as_json
        self._above: Console | None = None

    def value(self, value: Any) -> None:
        """The answer as one line of JSON, with ``--json`` only."""
        if self.json:
            from schemas.base import canonical  # heavy imports wait until a command runs

            sys.stdout.write(canonical(value).decode("utf-8", "replace") + "\n")
            sys.stdout.flush()

    def show(self, answer: str, *, fold: bool = True) -> None:
        """The answer for people, its control characters made visible. Nothing with ``--json``.

        ``fold`` breaks lines between words where the terminal ends; commands are left whole, for copying.
        """
        if not self.json:
            console = self.console()
            console.print(visible(answer), highlight=False, markup=False, soft_wrap=not fold or console.soft_wrap)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str] = ()) -> None:
        """The answer as a table; a column named with a leading ``#`` is aligned to the right.

        Only the last column is folded: ids stay whole, for copying, also on a narrow terminal. Where there is no
        room for all, heads are shortened and the ``spare`` columns left out, one after another.
        """
        if not self.json:
            rows = [tuple(map(visible_cell, row)) for row in rows]
            console = self.console()
            every = columns
            columns, rows = fitting(columns, rows, spare, console.width)
            console.width = max(console.width, _least_width(columns, rows))
            with console.capture() as drawn:
                console.print(drawn_table(columns, rows), markup=False)
            sys.stdout.writelines(line.rstrip() + "\n" for line in drawn.get().splitlines())
            if left_out := _left_out(every, columns):
                self.show(f"left out for want of room: {', '.join(left_out)} (--json has them)")

    def note(self, text: str) -> None:
        """A remark on what happens meanwhile. That nobody reads it is no reason to stop."""
        said = on_errors(text)
        with suppress(BrokenPipeError):
            if self._above is None:
                print(said, file=sys.stderr, flush=True)
            else:
                self._above.print(said, soft_wrap=True, markup=False, highlight=False)

    @contextmanager
    def notes_above(self, display: "Console") -> Iterator[None]:
        """In the block remarks go above what is redrawn in place on this console."""
        self._above = display
        try:
            yield
        finally:
            self._above = None

    def console(self, *, errors: bool = False) -> "Console":
        """A console on one of the two streams."""
        return console_on(sys.stderr if errors else sys.stdout)


def console_on(stream: TextIO) -> "Console":
    """A console on a stream."""
    from rich.console import Console

    class OnPipe(Console):
        """Raises ``BrokenPipeError`` as it is; rich would end the program."""

        def on_broken_pipe(self) -> None:
            raise  # what rich is handling

    return OnPipe(file=stream, width=None if stream.isatty() else PIPE_COLUMNS, soft_wrap=not stream.isatty())


def on_errors(text: str) -> str:
    """A message as standard error has it: folded where a terminal ends, its commands as they are typed."""
    said = visible(typeable(text))
    if not sys.stderr.isatty():
        return said
    return "\n".join(folded(prose(said), console_on(sys.stderr).width))


def fitting(
    columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str], width: int
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """As much of a table as fits the width: all, else with short heads, else without some of the spare columns."""
    if _least_width(columns, rows) <= width:
        return columns, rows
    kept, heads, cells = list(range(len(columns))), [SHORT.get(head, head) for head in columns], rows
    for column in (None, *(columns.index(head) for head in spare if head in columns)):
        kept = [one for one in kept if one != column]
        cells = [[row[one] for one in kept] for row in rows]
        if _least_width([heads[one] for one in kept], cells) <= width:
            break
    return [heads[one] for one in kept], cells


def _left_out(every: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The heads of the columns that a table was left without."""
    return [head.lstrip("#") for head in every if head not in columns and SHORT.get(head, head) not in columns]


def _least_width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Width at which every column but the last is whole, and the last has room for a word."""
    heads = [column.lstrip("#") for column in columns]
    widest = [max(map(len, cells)) for cells in zip(heads, *rows, strict=True)]
    return sum(widest[:-1]) + len(GAP) * len(widest) + min(widest[-1], LAST_COLUMN)


def drawn_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> "RenderableType":
    """A table without frames, which reads well on a terminal and in a log."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), title=title or None, title_justify="left")
    for column in columns:
        table.add_column(
            column.lstrip("#"),
            justify="right" if column.startswith("#") else "left",
            no_wrap=column != columns[-1],
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(visible_cell(cell)) for cell in row))
    return table


def json_option(function: Callable[..., Result]) -> Callable[..., Result]:
    """Give a command the option ``--json`` and the argument ``out``; and ``--home``, as before the command."""

    @home_option(expose_value=False, callback=take_home, help="The data folder.")
    @click.option("--json", "as_json", is_flag=True, help="Print only JSON on standard output, one object a line.")
    @functools.wraps(function)
    def command(*args: Any, as_json: bool, **options: Any) -> Result:
        return function(*args, out=Output(as_json), **options)

    return command
