"""``tiltyard up``, ``down``, ``status``, ``doctor`` and ``logs``: the embedded stack by hand."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ops.cli.called import command_line, typeable
from ops.cli.failures import DONE, FAILED
from ops.cli.folded import Line, prose, show_lines
from ops.cli.output import Output, json_option
from ops.cli.typed import Whole

if TYPE_CHECKING:
    from schemas.status import EpisodeStatus
    from schemas.upgrade import Stranded
    from workers.settings import Settings

GO_ON = ("goes on when the stack is next started", "go on when the stack is next started")
MAY_GO_ON = tuple(f"{words}, unless paused or asking a question" for words in GO_ON)
"""What becomes of one open episode, and of several; where nobody can be asked, what may."""

PROCESS = click.Choice(["supervisor", "temporal", "world", "sandboxes", "worker"])


@click.command()
@click.pass_obj
@json_option
def up(home: Path | None, out: Output) -> int:
    """Start the stack and keep it until `tiltyard down`, also when it is idle.

    Other commands start it too when they need it; it then ends by itself after 15 idle minutes.
    """
    from infra.local.stack import bring_up
    from ops.cli.on_demand import stack_config
    from workers.settings import Settings

    config = stack_config(Settings.from_environment(home))
    try:
        address = bring_up(config, out.note, pinned=True).address
    except KeyboardInterrupt:
        out.note("interrupted: what was begun goes on; `tiltyard status` says what runs, `tiltyard down` ends it")
        raise
    out.value({"running": True, "home": str(config.home), "temporal_address": address})
    out.show(f"the stack is up: Temporal at {address}, data in {config.home}")
    return DONE


@click.command()
@click.pass_obj
@json_option
def down(home: Path | None, out: Output) -> int:
    """End the stack. Running episodes are kept and go on when it is next started; those that are paused or ask a
    question wait for you."""
    from infra.local.databases import open_episodes
    from infra.local.paths import StackPaths
    from infra.local.stack import look, take_down
    from ops.cli.watching import way_on
    from workers.settings import Settings

    settings = Settings.from_environment(home)
    paths, records = StackPaths(settings.home), settings.home / "records.db"
    was_up = look(paths) is not None
    statuses = _open_statuses(settings) if was_up and open_episodes(records) else ()
    ended = take_down(paths, out.note)
    left = open_episodes(records)
    out.value(
        {
            "ended": ended,
            "home": str(settings.home),
            "open_episodes": left,
            "paused": [one.episode_id for one in statuses if one.paused],
            "asking": [one.episode_id for one in statuses if one.question],
        }
    )
    out.show("the stack is down" if ended else "no stack was running")
    waiting = [one for one in statuses if one.paused or one.question]
    _show_open(out, left - len(waiting), *(GO_ON if was_up else MAY_GO_ON))
    for line in way_on(waiting):
        show_lines(out, prose(line))
    return DONE


def _open_statuses(settings: "Settings") -> "tuple[EpisodeStatus, ...]":
    import asyncio

    from ops.cli.looking import open_statuses

    return asyncio.run(open_statuses(settings))


def _show_open(out: Output, number: int, one: str, many: str) -> None:
    """That there are episodes without an end, and what becomes of them."""
    if number > 0:
        what = f"1 open episode: it {one}" if number == 1 else f"{number} open episodes: they {many}"
        out.show(f"{what} (to see them: {command_line('episodes', 'list')})", fold=False)


@click.command()
@click.pass_obj
@json_option
def status(home: Path | None, out: Output) -> int:
    """Say what runs. Starts nothing."""
    from infra.local.databases import hosts, open_episodes
    from infra.local.paths import StackPaths
    from infra.local.state import read_state
    from infra.sandboxes.records import counts
    from ops.cli import hosts as host
    from ops.cli.stranded import told
    from workers.settings import Settings

    settings = Settings.from_environment(home)
    paths = StackPaths(settings.home)
    left = open_episodes(paths.home / "records.db")
    sandboxes = counts(settings.sandboxes)
    known = [
        host.as_json(one, settings.tuning.outage_s) for one in hosts(paths.home / "records.db", settings.task_queue)
    ]
    state = read_state(paths.state)
    running = state is not None and state.running
    pinned = running and paths.pinned.exists()
    waiting = _stranded(settings) if left else ()
    out.value(
        {
            "running": running,
            "home": str(paths.home),
            "ends_when_idle": running and not pinned,
            "open_episodes": left,
            "sandboxes": sandboxes,
            "hosts": known,
            "stranded": [one.model_dump() for one in waiting],
            **(state.model_dump(mode="json") if state else {}),
        }
    )
    if state is None or not running:
        why = f" ({typeable(state.message)})" if state and state.message else ""
        out.show(f"no stack is running in {paths.home}{why}", fold=False)
        _show_open(out, left, *MAY_GO_ON)
        return DONE
    until = typeable("until `tiltyard down`") if pinned else "until it is idle"
    out.show(f"{state.phase}, {until}: Temporal at {state.address}, data in {paths.home}", fold=False)
    rows = [
        (
            one.name,
            one.state,
            str(one.process.pid if one.process else ""),
            _age(one.since),
            str(one.restarts),
            one.detail,
        )
        for one in state.processes
    ]
    if sandboxes:
        out.show("sandboxes: " + ", ".join(f"{number} {what}" for what, number in sorted(sandboxes.items())))
    out.table(("PROCESS", "STATE", "#PID", "#UP FOR", "#RESTARTS", "LAST"), rows)
    if known:
        out.table(host.COLUMNS, [host.row(one) for one in known])
    _show_open(out, left, "keeps the stack from being idle", "keep the stack from being idle")
    if waiting:
        out.show(f"{told(settings, waiting)} (to mend it: {command_line('doctor')})", fold=False)
    return DONE


def _stranded(settings: "Settings") -> "tuple[Stranded, ...]":
    """None where the server does not say: the doctor tells of that."""
    from ops.cli.stranded import stranded
    from tiltyard.errors import EnvironmentFailed

    try:
        return stranded(settings)
    except EnvironmentFailed:
        return ()


def _age(since: float) -> str:
    """Seconds since then as a person would say it."""
    seconds = max(0, int(time.time() - since)) if since else 0
    for length, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds // length} {name}"
    return f"{seconds} s"


@click.command()
@click.pass_obj
@json_option
def doctor(home: Path | None, out: Output) -> int:
    """Find what is wrong and say how to mend it; the exit code is then 3. Starts nothing, changes nothing."""
    from ops.cli.checks import all_checks
    from workers.settings import Settings

    checks = all_checks(Settings.from_environment(home))
    problems = sum(not one.ok for one in checks)
    out.value({"ok": problems == 0, "checks": [one.model_dump() for one in checks]})
    for one in checks:
        show_lines(out, [Line(f"{one.verdict:7}  {one.name}: {typeable(one.detail)}", hang=9)])
        if one.fix:
            show_lines(out, [Line(f"to mend it: {typeable(one.fix)}", 9)])
    return FAILED if problems else DONE


@click.command()
@click.argument("process", required=False, type=PROCESS)
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines until Ctrl-C.")
@click.option("-n", "--lines", default=20, show_default=True, type=Whole(0), help="Last lines of each log.")
@click.pass_obj
@json_option
def logs(home: Path | None, process: str | None, follow: bool, lines: int, out: Output) -> int:
    """Print the last lines of the stack's logs: of one PROCESS, or of all."""
    from infra.local.logs import follow as new_lines
    from infra.local.logs import tail
    from infra.local.paths import PROCESSES, StackPaths
    from workers.settings import Settings

    paths = StackPaths(Settings.from_environment(home).home)
    files = {name: paths.log(name) for name in ([process] if process else PROCESSES)}
    for name, file in files.items():
        for line in tail(file, lines):
            _log_line(out, name, line)
    if follow:
        for name, line in new_lines(files):
            _log_line(out, name, line)
    return DONE


def _log_line(out: Output, process: str, line: str) -> None:
    out.value({"process": process, "line": line})
    out.show(f"{process:10} {line}")
