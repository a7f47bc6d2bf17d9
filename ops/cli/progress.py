"""Progress of a batch: a live display on a terminal, plain lines elsewhere. Both on standard error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.live import Live

from ops.cli.output import Output, drawn_table
from ops.cli.results import end_of, rules
from ops.cli.watching import phase_of
from schemas.episode import EpisodeResult, EpisodeSpec
from schemas.status import EpisodeStatus


class Progress(Protocol):
    """What a batch tells its watcher. ``live`` says that each turn can be seen."""

    live: bool

    def started(self, spec: EpisodeSpec) -> None: ...

    def status(self, status: EpisodeStatus) -> None: ...

    def ended(self, result: EpisodeResult) -> None: ...

    def stop(self) -> None: ...


@contextmanager
def progress(out: Output, total: int) -> Iterator[Progress]:
    """The display that fits standard error."""
    with _live(out) as live:
        yield Lines(out, total) if live is None else Board(out, live, total)


@contextmanager
def counting(out: Output, total: int, what: str) -> Iterator[Callable[[int], None]]:
    """How many of ``total`` are done: in place on a terminal, elsewhere a line for each hundred."""
    with _live(out) as live:

        def tell(done: int) -> None:
            if live is not None:
                live.update(f"{done} of {total} {what}")
            elif done % EACH == 0:
                out.note(f"{done} of {total} {what}")

        yield tell


EACH = 100


@contextmanager
def _live(out: Output) -> Iterator[Live | None]:
    """A display that is redrawn in place on standard error. None where that is no terminal, or where JSON would be
    written into it."""
    if not sys.stderr.isatty() or (out.json and sys.stdout.isatty()):
        yield None
        return
    console = out.console(errors=True)
    # what is printed elsewhere meanwhile stays there, and stays as it is: rich would fold it
    with (
        Live(
            console=console, transient=True, refresh_per_second=8, redirect_stdout=False, redirect_stderr=False
        ) as live,
        out.notes_above(console),
    ):
        yield live


def ended_line(result: EpisodeResult) -> str:
    """One ended episode in a line."""
    trial = f"{result.task} by {result.policy}, seed {result.seed}"
    risk = f", risk {', '.join(rules(result))}" if result.risks else ""
    return f"{trial}: {end_of(result)}, score {result.score.total:.2f}{risk} ({result.episode_id})"


class Lines:
    """One line for each end. Questions are told by the batch, on every kind of display."""

    live = False

    def __init__(self, out: Output, total: int) -> None:
        self._out, self._total, self._done = out, total, 0

    def started(self, spec: EpisodeSpec) -> None:
        """Silence: the end says all."""

    def status(self, status: EpisodeStatus) -> None:
        """Silence: nobody can see each turn."""

    def ended(self, result: EpisodeResult) -> None:
        self._done += 1
        self._out.note(f"{self._done}/{self._total} {ended_line(result)}")

    def stop(self) -> None:
        """Nothing is left to be taken away."""


class Board:
    """The running episodes with their phase and turn, redrawn in place; ends scroll by above."""

    live = True

    def __init__(self, out: Output, live: Live, total: int) -> None:
        self._out, self._live, self._total, self._done = out, live, total, 0
        self._rows: dict[str, tuple[EpisodeSpec, EpisodeStatus | None]] = {}

    def started(self, spec: EpisodeSpec) -> None:
        self._rows[spec.episode_id] = (spec, None)
        self._draw()

    def status(self, status: EpisodeStatus) -> None:
        if status.episode_id in self._rows:
            self._rows[status.episode_id] = (self._rows[status.episode_id][0], status)
            self._draw()

    def ended(self, result: EpisodeResult) -> None:
        self._rows.pop(result.episode_id, None)
        self._done += 1
        self._out.note(ended_line(result))
        self._draw()

    def stop(self) -> None:
        self._live.stop()

    def _draw(self) -> None:
        rows = [
            (
                spec.episode_id,
                spec.task_id,
                str(spec.seed),
                phase_of(status) if status else "starting",
                str(status.turns if status else 0),
            )
            for spec, status in self._rows.values()
        ]
        title = f"{self._done} of {self._total} done, {len(rows)} running"
        self._live.update(drawn_table(("EPISODE", "TASK", "#SEED", "PHASE", "#TURNS"), rows, title))
