"""``tiltyard episodes pin``: an episode kept as a case that is checked from then on."""

from pathlib import Path

from ops.cli.called import command_line
from ops.cli.folded import Line, folded, indented, show_lines
from ops.cli.looking import ended
from ops.cli.output import Output
from ops.cli.pins import broken_lines
from ops.cli.suites import kinds
from schemas.episode import EpisodeResult
from schemas.pin import Pin
from tiltyard.errors import BadInput
from tiltyard.reopen.kept import trace_of
from tiltyard.reopen.kept_turns import of_another
from tiltyard.reopen.pin_checks import check_pin
from tiltyard.reopen.pin_files import is_pin, text_of, write_pin
from tiltyard.reopen.pinning import pin_of
from tiltyard.suite.families import PINNED
from workers.bootstrap.ground import open_records
from workers.bootstrap.objects import open_objects
from workers.bootstrap.practice import open_stage
from workers.settings import Settings


async def pin_episode(home: Path | None, episode_id: str, to: Path | None, name: str | None, out: Output) -> None:
    """Make the pin, see it hold, and write it. Raises ``BadInput`` for an episode that no pin can be made of."""
    settings = Settings.from_environment(home)
    result = await ended(settings, episode_id)
    with open_objects(settings) as objects:
        trace = await trace_of(result, objects)
    with open_records(settings) as records:
        advice = await of_another(trace.evidence.spec, records) if records else ""
    file = place_of(settings, result, to, name)
    pin = pin_of(result, trace, name or stem_of(file))
    unplayed = await keep(home, pin, file, out, advice)
    out.value({"file": str(file), "name": pin.name, "task": pin.task.id, "unplayed": unplayed})


def place_of(settings: Settings, result: EpisodeResult, to: Path | None, name: str | None) -> Path:
    """Where a pin goes, always in a folder ``pinned``: the given file, or the given or the data folder's.

    Raises ``BadInput`` for a file anywhere else: nobody would check it.
    """
    if to is not None and to.suffix and not to.is_dir():
        if is_pin(to):
            return to
        fix = f"write it to {to.with_name(PINNED) / to.name}"
        raise BadInput(f"a pin is a .yaml or .json file in a folder {PINNED}", field=f"--to {to}", fix=fix)
    folder = settings.pins if to is None else to if to.name == PINNED else to / PINNED
    stem = name or f"{'-'.join(result.task.split('/')[1:])}-{result.episode_id}"
    return folder / f"{stem}.yaml"


def stem_of(file: Path) -> str:
    """A file's name without its last suffix."""
    return file.name.removesuffix(file.suffix)


async def keep(home: Path | None, pin: Pin, file: Path, out: Output, advice: str = "") -> str:
    """Write a pin that holds; why it could not be played here, where that is so.

    Raises ``BadInput`` for one that does not hold even now, with ``advice`` where it is known why.
    """
    text_of(pin, file.suffix)  # what cannot be written is told before it is played
    async with open_stage(Settings.from_environment(home), kinds(home)) as stage:
        held = await check_pin(pin, stage)
    if held.broken:
        told = "\n".join(folded(indented(broken_lines(held)), None))
        why = f"played again it comes to something else:\n{told}"
        fix = advice or f"`tiltyard replay {pin.source.episode}` says what has changed since then"
        raise BadInput(why, field=pin.source.episode, fix=fix)
    write_pin(file, pin)
    check = command_line("tasks", "check", str(file))
    not_yet = f"not played yet: {held.unplayed}" if held.unplayed else ""
    show_lines(out, [Line(f"pinned in {file}", whole=True)])
    out.note(not_yet or f"it is checked from now on; to check it alone: {check}")
    return held.unplayed
