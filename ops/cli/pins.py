"""Pins on the command line: which ones a check is about, and what is told of them."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ops.cli.called import command_line, typeable
from ops.cli.failures import told_input
from ops.cli.folded import Line, indented, prose, show_lines
from ops.cli.output import Output
from ops.cli.suites import kinds
from schemas.base import JsonObject
from tiltyard.errors import BadInput, BadTask
from tiltyard.reopen.pin_checks import Held, check_pin
from tiltyard.reopen.pin_files import pins_at, pins_beside, pins_in, read_pin, write_pin
from tiltyard.reopen.pinning import Broken
from tiltyard.suite.families import Suite
from workers.bootstrap.practice import open_stage
from workers.settings import Settings


@dataclass(frozen=True)
class Checked:
    """What came of one pin's file: how it was held, or what is wrong with the file; ``again``: pinned again."""

    file: Path
    held: Held | None = None
    problem: BadTask | None = None
    again: bool = False

    @property
    def wrong(self) -> bool:
        """Whether it is a file that cannot be used, or a pin that no longer holds."""
        return self.problem is not None or (self.held is not None and bool(self.held.broken) and not self.again)

    @property
    def broken(self) -> bool:
        """Whether it was played and no longer holds."""
        return self.wrong and self.problem is None

    @property
    def unplayed(self) -> bool:
        return self.held is not None and bool(self.held.unplayed)


def pins_for(settings: Settings, place: Path | None, suite: Suite) -> list[Path]:
    """The files that a check of ``place`` is about; without one those beside what is shipped or imported, and those
    of the data folder. A world's folder, or a task file, has those of its families."""
    if place is None:
        return [*pins_beside(suite), *pins_in(settings.pins)]
    return pins_at(place) or [file for file in pins_beside(suite) if _about(file, suite)]


def _about(file: Path, suite: Suite) -> bool:
    try:
        return read_pin(file, edited=True).task.family in suite.families
    except BadTask:
        return False  # whoever checks the suite's folder is told


def check_pins(home: Path | None, files: Sequence[Path], pin_again: bool) -> list[Checked]:
    """Read and play each pin, one after the other; those that do not hold are pinned again where that is asked."""
    if not files:
        return []
    return asyncio.run(_checked(home, files, pin_again))


async def _checked(home: Path | None, files: Sequence[Path], pin_again: bool) -> list[Checked]:
    done = []
    async with open_stage(Settings.from_environment(home), kinds(home)) as stage:
        for file in files:
            try:
                pin = read_pin(file, edited=pin_again)
            except BadTask as error:
                done.append(Checked(file, problem=error))
                continue
            held = await check_pin(pin, stage)
            done.append(Checked(file, held, again=pin_again and _pinned_again(file, held)))
    return done


def _pinned_again(file: Path, held: Held) -> bool:
    """Write what the pin comes to now in its place, where that is not what it holds."""
    now, pin = held.now, held.pin
    if now is None or now.sealed == pin.sealed:
        return False
    notes = {"trace": now.source.trace, "graders": now.source.graders}
    write_pin(file, now.model_copy(update={"source": pin.source.model_copy(update=notes)}), replace=True)
    return True


def told(one: Checked) -> JsonObject:
    """A checked pin as JSON."""
    held, problem = one.held, one.problem
    return {
        "file": str(one.file),
        "name": held.pin.name if held else None,
        "task": held.pin.task.id if held else None,
        "holds": held.holds if held else False,
        "broken": [one._asdict() for one in (held.broken if held else (Broken(str(problem)),))],
        "since": held.since if held else "",
        "unplayed": held.unplayed if held else "",
        "pinned_again": one.again,
    }


def show(one: Checked, out: Output) -> None:
    """Nothing of a pin that holds."""
    show_lines(out, _lines(one))


def _lines(one: Checked) -> Iterator[Line]:
    held = one.held
    if one.problem is not None:
        yield from prose(typeable(told_input(one.problem)))
    elif one.again:
        yield Line(f"{one.file}: pinned again")
    elif held is not None and held.unplayed:
        yield Line(f"{one.file}: not played: {held.unplayed}")
    elif held is not None and held.broken:
        yield Line(f"{one.file}: no longer holds ({held.pin.task.id}, pinned from {held.pin.source.episode})")
        yield from indented(broken_lines(held))
        again = command_line("tasks", "check", str(one.file), "--pin-again")
        yield Line(f"to mend it: correct what has changed; if that is meant, pin it again: {again}", 2)
    elif held is not None and held.since:
        yield Line(f"{one.file}: holds, and goes another way at {held.since}")


def broken_lines(held: Held) -> Iterator[Line]:
    """In what a pin no longer holds, one thing a line, and since when."""
    for one in held.broken:
        yield Line(one.what)
        yield from (Line(why, 2, mark="- ") for why in one.gone)
        yield from (Line(why, 2, mark="+ ") for why in one.come)
    if held.since:
        yield Line(f"it first goes another way at {held.since}")
    elif held.now is not None:
        yield Line(
            "all that was shown is as it was: the graders judge otherwise, or something in the world that no call "
            "showed has changed"
        )


def refuse_pin_again(files: Sequence[Path]) -> None:
    """Raises ``BadInput`` where nothing is there to be pinned again."""
    if not files:
        raise BadInput("there are no pins here", field="--pin-again", fix="name a pin, or a folder with some")
