"""Tables on terminals of every width: what is left out, and that the rest is whole."""

import pytest

from ops.cli.output import drawn_table, fitting
from ops.cli.results import COLUMNS, SPARE
from ops.cli.showing import COLUMNS as SHOWN
from ops.cli.showing import SPARE as DEMO_SPARE

DEMO = ("POLICY", *(column for column in SHOWN if column != "RISK"))
RISKLESS = tuple(column for column in COLUMNS if column != "RISK")
ROW = ("new_id_retry  ", "submitted", "0.04", "0.00", "0.16", "0.00", "3", "1", "duplicate_effect", "empty")
RUN = ("replacement/receipt-service-down/1", "reconcile", "12", *ROW[1:], "e-8i67x44wn5")
RISKY = (
    "code-repair/repair/1",
    "test_deleter",
    "0",
    *ROW[1:8],
    "-",
    "forged_exit, tampering",
    "empty",
    "e-8i67x44wn5",
)


def lines(columns: object, rows: object, width: int) -> list[str]:
    from rich.console import Console

    console = Console(width=width)
    with console.capture() as drawn:
        console.print(drawn_table(columns, rows))  # type: ignore[arg-type]  # as fitting left them
    return [line.rstrip() for line in drawn.get().splitlines()]


@pytest.mark.parametrize("width", [80, 90, 120, 200])
@pytest.mark.parametrize(
    ("columns", "row", "spare"), [(DEMO, ROW, DEMO_SPARE), (RISKLESS, RUN, SPARE), (COLUMNS, RISKY, SPARE)]
)
def test_a_row_is_one_line(
    width: int, columns: tuple[str, ...], row: tuple[str, ...], spare: tuple[str, ...]
) -> None:
    drawn = lines(*fitting(columns, [row], spare, width), width)
    assert len(drawn) == 2
    assert max(map(len, drawn)) <= width
    assert row[0].strip() in drawn[1]


def test_the_demo_keeps_what_it_is_about_at_80_columns() -> None:
    heads, (row,) = fitting(DEMO, [ROW], DEMO_SPARE, 80)
    assert {"POLICY", "END", "#SCORE", "#C", "#P", "#E", "#EFF", "#DUP", "SAFETY"} == set(heads)
    assert "duplicate_effect" in row


def test_nothing_changes_where_there_is_room() -> None:
    assert fitting(DEMO, [ROW], DEMO_SPARE, 200) == (DEMO, [ROW])
