"""Regrades as a person reads them: one in full, several as a table."""

from collections.abc import Iterator
from typing import Any

from ops.cli.output import Output
from schemas.regrade import Fact, Regrade

CELL = 48
"""Characters of a fact that the table shows; what moved is told in full below it."""

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
            _show_one(self._first, self._out)
        elif self._rows:
            self._out.table(COLUMNS, self._rows, SPARE)
            self._out.show(f"{len(self._rows)} graded again; something moved in {self.moved}")


def as_json(one: Regrade) -> dict[str, Any]:
    """A regrade as one line of JSON."""
    dumped = one.model_dump(mode="json", exclude={"facts"})
    return {**dumped, "equal": not one.moved, "moved": [fact.model_dump(mode="json") for fact in one.moved]}


def _show_one(one: Regrade, out: Output) -> None:
    out.show(f"episode {one.episode_id}\ntask    {one.task}, policy {one.policy}, seed {one.seed}")
    out.show(f"graders {_then_and_now(one.before.graders, one.after.graders)}")
    out.show(f"by task {_then_and_now(one.before.task, one.after.task)}")
    out.table(("FACT", "RECORDED", "NOW"), [(_name(fact), _brief(fact.before), _now(fact)) for fact in one.facts])
    for fact in one.moved:
        out.show("\n".join([f"moved: {_name(fact)}", *_lines("-", fact.before), *_lines("+", fact.after)]))
    for part in one.untold:
        out.show(f"not recorded then, so not compared: {part}")
    if not one.moved:
        out.show("nothing moved")


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
    return f"{then or 'none'}, the same now" if then == now else f"{then or 'none'} then, {now or 'none'} now"


def _name(fact: Fact) -> str:
    return fact.name if fact.name == fact.part else f"{fact.part} {fact.name}"


def _brief(said: tuple[str, ...]) -> str:
    if not said:
        return "-"
    more = f" (+{len(said) - 1})" if len(said) > 1 else ""
    return (said[0] if len(said[0]) <= CELL else said[0][: CELL - 1] + "…") + more


def _now(fact: Fact) -> str:
    return f"{_brief(fact.after)}  <- moved" if fact.moved else _brief(fact.after)


def _lines(mark: str, said: tuple[str, ...]) -> Iterator[str]:
    yield from (f"  {mark} {line}" for line in said or ("(none)",))
