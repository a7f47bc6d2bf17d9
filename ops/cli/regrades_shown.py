"""Regrades as a person reads them: one in full, several as a table."""

from collections.abc import Iterator
from typing import Any

from ops.cli.counting import counted
from ops.cli.folded import Line, indented, show_lines
from ops.cli.output import Output
from schemas.regrade import Fact, Regrade

SHORT = 56
"""Characters of both sides of a fact that stand in one line."""

DIGEST = 19
"""Characters of a digest that are shown: the answer with ``--json`` has all."""

COLUMNS = ("EPISODE", "TASK", "POLICY", "#RECORDED", "#NOW", "JUDGED BY", "MOVED")
SPARE = ("JUDGED BY", "POLICY", "TASK")


class Shown:
    """What is shown of regrades at their end: the only one in full, or a row of each. With ``--json`` nothing is
    shown, and nothing kept."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._first: Regrade | None = None
        self._rows: list[tuple[str, ...]] = []
        self.moved = 0

    def add(self, one: Regrade) -> None:
        self.moved += bool(one.moved)
        if not self._out.json:
            self._first = None if self._rows else one
            self._rows.append(_row(one))

    def show(self) -> None:
        if self._first is not None:
            show_lines(self._out, lines_of(self._first))
        elif self._rows:
            self._out.table(COLUMNS, self._rows, SPARE)
            self._out.show(f"{len(self._rows)} graded again; something moved in {self.moved}")


def as_json(one: Regrade) -> dict[str, Any]:
    """A regrade as one line of JSON."""
    dumped = one.model_dump(mode="json", exclude={"facts"})
    return {**dumped, "equal": not one.moved, "moved": [fact.model_dump(mode="json") for fact in one.moved]}


def lines_of(one: Regrade) -> Iterator[Line]:
    """One in full: by what it was judged, what moved, and how much did not."""
    yield Line(f"episode {one.episode_id}")
    yield Line(f"task    {one.task}, policy {one.policy}, seed {one.seed}", hang=8)
    yield Line(f"graders {_then_and_now(one.before.graders, one.after.graders)}", hang=8)
    yield Line(f"by task {_then_and_now(one.before.task, one.after.task)}", hang=8)
    same = counted(len(one.facts) - len(one.moved), "fact")
    if one.moved:
        yield Line("moved")
        yield from (line for fact in one.moved for line in indented(_moved(fact)))
        yield Line(f"the same: {same}")
    else:
        yield Line(f"nothing moved: {same} {'is' if same.startswith('1 ') else 'are'} the same")
    for part in one.untold:
        yield Line(f"not recorded then, so not compared: {part}")


def _moved(fact: Fact) -> Iterator[Line]:
    """One fact: in one line where little is said of it, else what went and what came."""
    before, after = fact.before or ("none",), fact.after or ("none",)
    if len(before) == len(after) == 1 and len(before[0]) + len(after[0]) <= SHORT:
        yield Line(f"{_name(fact)}: {before[0]} → {after[0]}")
        return
    verdict = f": {before[0]}" if before[0] == after[0] else ""
    yield Line(f"{_name(fact)}{verdict}")
    reordered = set(before) == set(after)
    for mark, said, others in (("- ", before, after), ("+ ", after, before)):
        yield from (Line(line, 2, mark=mark) for line in said if reordered or line not in others)


def _row(one: Regrade) -> tuple[str, ...]:
    return (
        one.episode_id,
        one.task,
        one.policy,
        f"{one.before.score.total:.3f}",
        f"{one.after.score.total:.3f}",
        _judged_by(one),
        "; ".join(map(_name, one.moved)) or "nothing",
    )


def _judged_by(one: Regrade) -> str:
    graders = "other graders" if one.before.graders != one.after.graders else ""
    task = "another task" if one.before.task != one.after.task else ""
    return ", ".join(filter(None, (graders, task))) or "the same"


def _then_and_now(then: str, now: str) -> str:
    if then == now:
        return f"{_digest(then)}, the same now"
    return f"{_digest(then)} then, {_digest(now)} now"


def _digest(whole: str) -> str:
    return whole[:DIGEST] + "…" if len(whole) > DIGEST else whole or "none"


def _name(fact: Fact) -> str:
    return fact.name if fact.name == fact.part else f"{fact.part} {fact.name}"
