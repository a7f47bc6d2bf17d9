"""A tiny world for tests: named tallies, with jobs, refusals and bugs on demand."""

from typing import Annotated

from pydantic import Field

from schemas.base import JsonObject
from tiltyard.worlds.kit import BadInput, Entity, Refused, State, Template, WorldKind, job, tool

TALLIES = "tallies"

Amount = Annotated[int, Field(ge=-1_000, le=1_000, description="How much to add.")]
Name = Annotated[str, Field(min_length=1, max_length=50, description="The tally's name.")]
Seconds = Annotated[int, Field(description="Seconds from now.")]


class Tally(Entity):
    """A named number with the amounts that made it."""

    name: str
    total: int = 0
    amounts: tuple[int, ...] = ()

    def plus(self, amount: int) -> "Tally":
        return self.model_copy(update={"total": self.total + amount, "amounts": (*self.amounts, amount)})


def _add(state: State, name: str, amount: int) -> Tally:
    tally = (state.find(Tally, TALLIES, name) or Tally(name=name)).plus(amount)
    state.save(TALLIES, name, tally)
    return tally


@tool(writes=True)
def add(state: State, name: Name, amount: Amount = 1) -> Tally:
    """Add to a tally; it is made when there is none."""
    return _add(state, name, amount)


@tool(writes=True)
def remove(state: State, name: Name) -> str:
    """Remove a tally."""
    state.get(Tally, TALLIES, name)
    state.delete(TALLIES, name)
    return "removed"


@tool(cost_s=5)
def read(state: State, name: Name) -> Tally:
    """Read a tally."""
    return state.get(Tally, TALLIES, name)


@tool()
def names(state: State) -> list[str]:
    """The names of all tallies."""
    return [tally.name for tally in state.all(Tally, TALLIES)]


@tool(writes=True)
def add_later(state: State, name: Name, after_s: Seconds, amount: Amount = 1) -> str:
    """Add to a tally after some time; the job's number."""
    return state.schedule("add_due", {"name": name, "amount": amount}, after_s)


@tool(writes=True)
def tick(state: State, name: Name, every_s: Seconds, times: int) -> str:
    """Add 1 to a tally again and again."""
    return state.schedule("tick_due", {"name": name, "every_s": every_s, "left": times}, every_s)


@tool(writes=True)
def add_then_refuse(state: State, name: Name) -> None:
    """Add, and then refuse: nothing may stay."""
    _add(state, name, state.next_id("numbers"))
    raise Refused("it is always refused", code="never")


@tool(writes=True)
def add_then_break(state: State, name: Name) -> None:
    """Add, and then fail with a bug."""
    _add(state, name, 1)
    raise ZeroDivisionError("a bug of the world")


@tool()
def scribble(state: State, name: Name) -> str:
    """Change in place what was read, without saving it."""
    body = state.load(TALLIES, name)
    if isinstance(body, dict):
        body["total"] = 1_000_000
    return "scribbled"


@tool(writes=True)
def number(state: State) -> int:
    """The next number."""
    return state.next_id("numbers")


@job
def add_due(state: State, name: str, amount: int) -> None:
    _add(state, name, amount)


@job
def tick_due(state: State, name: str, every_s: int, left: int) -> None:
    _add(state, name, 1)
    if left > 1:
        state.schedule("tick_due", {"name": name, "every_s": every_s, "left": left - 1}, every_s)


@job
def break_due(state: State) -> None:
    _add(state, "broken", 1)
    raise KeyError("a bug of the job")


def template(name: str, params: JsonObject) -> Template:
    """``default``: the tallies ``apples`` and ``pears`` and ``size`` numbered ones. ``jobs``: jobs pending too."""
    size = params.get("size", 0)
    if not isinstance(size, int) or size < 0:
        raise BadInput(f"{size!r} is not a number of tallies", field="template.params.size", fix="give 0 or more")
    kept = {name: Tally(name=name) for name in ("apples", "pears", *(f"t{n}" for n in range(size)))}
    jobs: dict[str, tuple[tuple[str, JsonObject, int], ...]] = {
        "default": (),
        "jobs": (("add_due", {"name": "apples", "amount": 7}, 60), ("break_due", {}, 120)),
    }
    if name not in jobs:
        raise BadInput(f"there is no template {name!r}", field="template.name", fix="use default or jobs")
    return Template.of({TALLIES: kept}, jobs[name])


TALLY = WorldKind.of(
    "tally",
    "Named tallies.",
    (add, remove, read, names, add_later, tick, add_then_refuse, add_then_break, scribble, number),
    template,
    (add_due, tick_due, break_due),
    ("default", "jobs"),
)
