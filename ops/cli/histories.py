"""``tiltyard histories``: whether this code can go on with what a cluster's workflows have decided so far."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ops.cli.called import typeable
from ops.cli.failures import BELOW, DONE
from ops.cli.output import Output, json_option
from ops.cli.typed import Whole

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowHistory

    from tiltyard.errors import BadInput
    from workers.histories import Run
    from workers.settings import Settings

NAMED = 20
"""Failing runs that are named; the others are counted, and all are in the JSON."""

ANSWER_S = 10.0
"""How long a server has to answer."""

EVERY = 50
"""Histories after which a line tells how far it is."""

FIX = """\
This code would decide otherwise than they did, or cannot read what they wrote. Either bring the change in under
`workflow.patched`, so that old runs do without it; or leave workers with the older code running until those have
ended. docs/upgrades.md has the order of a deployment."""


@dataclass
class Checked:
    """How many of each kind were replayed, running and closed ones, and which failed, why."""

    counts: dict[tuple[str, bool], int] = field(default_factory=dict)
    failed: "list[tuple[Run, str]]" = field(default_factory=list)

    def note(self, run: "Run", problem: str) -> None:
        of = (run.kind, run.running)
        self.counts[of] = self.counts.get(of, 0) + 1
        if problem:
            self.failed.append((run, problem))


@click.group()
def histories() -> None:
    """Replay what a cluster's workflows have decided against this code, or keep it."""


def _which(function: "click.decorators.FC") -> "click.decorators.FC":
    """The options that choose among the histories of a cluster."""
    for option in (
        click.option("--limit", default=200, show_default=True, type=Whole(1), help="Closed ones of each kind."),
        click.option("--closed", is_flag=True, help="Only those that have ended."),
        click.option("--running", is_flag=True, help="Only those that go on."),
    ):
        function = option(function)
    return function


@histories.command(short_help="Replay them against this code; exit 1 when it cannot go on with one.")
@_which
@click.option(
    "--from",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Histories that were exported, instead of a cluster's.",
)
@click.option("--allow-none", is_flag=True, help="Nothing to replay is no mistake.")
@click.pass_obj
@json_option
def check(
    home: Path | None, running: bool, closed: bool, limit: int, folder: Path | None, allow_none: bool, out: Output
) -> int:
    """Replay all running and the newest closed workflows against this code: before it is deployed.

    They are those of the cluster that TILTYARD_TEMPORAL_ADDRESS names, else of the data folder's stack, as it is:
    it is not restarted, and where none runs a copy of what it has kept is read. Exit code 1 when one fails, and 2
    when there was none to replay.
    """
    import asyncio

    from workers.settings import Settings

    settings = Settings.from_environment(home)
    if folder is not None:
        found = asyncio.run(_replayed_files(_read(folder, allow_none), out))
    else:
        with _cluster(settings, out) as address:
            wanted = _states(running, closed)
            found = asyncio.run(_replayed(settings, address, wanted, limit, out)) if address else Checked()
    if not found.counts and not allow_none:
        raise _nothing(settings)
    _tell(found, out)
    return BELOW if found.failed else DONE


@histories.command(short_help="Write them to files, as `check --from` reads them.")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@_which
@click.pass_obj
@json_option
def export(home: Path | None, folder: Path, running: bool, closed: bool, limit: int, out: Output) -> int:
    """Write the histories that `check` would replay to DIR, a file each, without what names a machine."""
    import asyncio

    from workers.settings import Settings

    settings = Settings.from_environment(home)
    folder.mkdir(parents=True, exist_ok=True)
    with _cluster(settings, out) as address:
        wanted = _states(running, closed)
        number = asyncio.run(_exported(settings, address, wanted, limit, folder, out)) if address else 0
    out.value({"folder": str(folder), "written": number})
    out.show(f"{_histories(number)} in {folder}", fold=False)
    return DONE


def _nothing(settings: "Settings") -> "BadInput":
    """What opens no gate: that no workflow is against this code says nothing of it."""
    from tiltyard.errors import BadInput

    return BadInput(
        f"nothing was replayed: there is no such workflow on the task queue {settings.task_queue!r}",
        field="TILTYARD_TASK_QUEUE",
        fix="name the queue and the server (TILTYARD_TEMPORAL_ADDRESS) of your workers; or say --allow-none, where "
        "there may be none",
    )


def _states(running: bool, closed: bool) -> tuple[bool, ...]:
    """Running ones, closed ones, or both where none was chosen."""
    return (True, False) if running == closed else (running,)


def _histories(number: int) -> str:
    return "1 history" if number == 1 else f"{number} histories"


@contextmanager
def _cluster(settings: "Settings", out: Output) -> Iterator[str]:
    """The address of the server that has the histories; empty where there are none."""
    from infra.local.paths import StackPaths
    from infra.local.served_copy import served_copy
    from infra.local.stack import look

    paths = StackPaths(settings.home)
    state = look(paths)
    if "temporal_address" in settings.model_fields_set:
        yield settings.temporal_address
    elif state is not None and state.phase == "ready":
        yield state.address
    elif paths.temporal_database.exists():
        out.note("no stack is running: reading a copy of what it has kept")
        with served_copy(paths.temporal_database, settings.temporal_namespace) as address:
            yield address
    else:
        out.note(f"there is no stack in {settings.home}, and it has kept nothing")
        yield ""


async def _connected(settings: "Settings", address: str) -> "Client":
    """Looked for before the SDK does: a process whose SDK has found nobody can crash at its end."""
    import asyncio

    from tiltyard.errors import EnvironmentFailed
    from workers.connect import connect

    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(ANSWER_S):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
    except (OSError, ValueError, TimeoutError) as error:
        fix = "`tiltyard doctor` says more; TILTYARD_TEMPORAL_ADDRESS names another server"
        raise EnvironmentFailed(f"no Temporal server answers at {address}", fix=fix) from error
    return await connect(settings.model_copy(update={"temporal_address": address}))


async def _runs(client: "Client", settings: "Settings", states: Sequence[bool], limit: int) -> "list[Run]":
    from workers.histories import KINDS, listed

    found: list[Run] = []
    for running in states:
        for kind in KINDS:
            most = None if running else limit
            found += await listed(client, settings.task_queue, kind, running=running, limit=most)
    return found


async def _replayed(settings: "Settings", address: str, states: Sequence[bool], limit: int, out: Output) -> Checked:
    from workers.histories import histories_of

    client = await _connected(settings, address)
    runs = await _runs(client, settings, states, limit)
    return await _checked(histories_of(client, runs), len(runs), out)


async def _checked(histories: "AsyncIterator[WorkflowHistory]", total: int, out: Output) -> Checked:
    from workers.assembly import WORKFLOWS, workflow_runner
    from workers.histories import problems_of, run_of

    found = Checked()
    with _counting(out, total) as done:
        async for history, problem in problems_of(histories, WORKFLOWS, workflow_runner()):
            found.note(run_of(history), problem)
            done()
    return found


def _read(folder: Path, allow_none: bool) -> "list[WorkflowHistory]":
    """Exported histories. Raises ``BadInput`` for a folder without any unless that is allowed, and for a file that
    is none."""
    from tiltyard.errors import BadInput
    from workers.histories import read_document

    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(read_document(json.loads(path.read_text())))
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path} is no exported history: {error}", field="--from") from error
    if not found and not allow_none:
        fix = "`tiltyard histories export DIR` writes some"
        raise BadInput(f"{folder} holds no *.json", field="--from", fix=fix)
    return found


async def _replayed_files(histories: "Sequence[WorkflowHistory]", out: Output) -> Checked:
    async def each() -> "AsyncIterator[WorkflowHistory]":
        for history in histories:
            yield history

    return await _checked(each(), len(histories), out)


async def _exported(
    settings: "Settings", address: str, states: Sequence[bool], limit: int, folder: Path, out: Output
) -> int:
    from workers.histories import document_of, histories_of

    client, written = await _connected(settings, address), 0
    runs = await _runs(client, settings, states, limit)
    with _counting(out, len(runs)) as done:
        async for history in histories_of(client, runs):
            name = f"{history.workflow_id.replace('/', '.')}.{history.run_id}.json"
            (folder / name).write_text(json.dumps(document_of(history), indent=1) + "\n")
            written += 1
            done()
    return written


@contextmanager
def _counting(out: Output, total: int) -> Iterator[Callable[[], None]]:
    """Call it after each: it tells now and then how far it is."""
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        if done % EVERY == 0 and done < total:
            out.note(f"{done} of {_histories(total)}")

    yield one_more


def _tell(found: Checked, out: Output) -> None:
    from workers.builds import build_id

    kinds = sorted({kind for kind, _ in found.counts})
    numbers = {
        kind: {"running": found.counts.get((kind, True), 0), "closed": found.counts.get((kind, False), 0)}
        for kind in kinds
    }
    failed = [
        {"workflow_id": run.workflow_id, "run_id": run.run_id, "kind": run.kind, "running": run.running, "why": why}
        for run, why in found.failed
    ]
    out.value({"version": build_id(), "checked": numbers, "failed": failed})
    _show(found, numbers, build_id(), out)


def _show(found: Checked, numbers: dict[str, dict[str, int]], version: str, out: Output) -> None:
    failing = {kind: sum(run.kind == kind for run, _ in found.failed) for kind in numbers}
    rows = [(kind, str(of["running"]), str(of["closed"]), str(failing[kind])) for kind, of in numbers.items()]
    if rows:
        out.table(("WORKFLOW", "#RUNNING", "#CLOSED", "#FAILED"), rows)
    if not found.counts:
        out.show("nothing was replayed: whether this code can go on is not known")
        return
    if not found.failed:
        out.show(f"{_histories(sum(found.counts.values()))} replayed: this code (version {version}) can go on")
        return
    for run, why in found.failed[:NAMED]:
        out.show(f"{'running' if run.running else 'closed'}  {run.workflow_id}  {why}", fold=False)
    if len(found.failed) > NAMED:
        out.show(f"and {len(found.failed) - NAMED} more")
    out.show(typeable(FIX))
