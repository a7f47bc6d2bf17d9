"""What ``tiltyard doctor`` looks at. Each check says what it found and, for a problem, how to mend it."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta

from infra.local.databases import damage, database_problem, namespaces
from infra.local.paths import StackPaths
from infra.local.runtime import runtime_problem
from infra.local.state import SILENT_S, read_state, silence_s
from infra.local.temporal import ask, temporal_binary
from infra.rpc.answers import answers
from ops.cli.check import ANSWER_S, HANGS, Check, runs
from ops.cli.counting import counted
from ops.cli.sandbox_checks import bubblewrap, docker, sandbox_host, unsafe_local
from ops.cli.stranded import janitor, versions
from tiltyard.errors import ObjectsUnreachable, TiltyardError
from workers.bootstrap.objects import open_objects
from workers.settings import Settings

OTHER_HOME = "choose another data folder with --home or TILTYARD_HOME"
FAILED_FIX = "a new start fails alike: first mend the other problems here; `tiltyard logs` says what went wrong"
OBJECTS_PATIENCE = timedelta(seconds=0.5)
LEAST_FREE_BYTES = 512 * 1024 * 1024


def python_version(settings: Settings) -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check(name="python", ok=sys.version_info >= (3, 11), detail=version, fix="")


def temporal_program(settings: Settings) -> Check:
    name = "temporal program"
    try:
        binary = temporal_binary()
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (TiltyardError, OSError, subprocess.SubprocessError) as error:
        return Check(name=name, ok=False, detail=str(error), fix="run `make setup`")
    return Check(name=name, ok=True, detail=said.strip())


def data_folder(settings: Settings) -> Check:
    name, home = "data folder", settings.home
    existing = home
    try:
        existing = next(folder for folder in (home, *home.parents) if folder.exists())
        probe = existing / ".tiltyard-doctor"
        probe.touch()
        probe.unlink()
    except OSError as error:
        why = f"{existing} cannot be written to ({error.strerror})"
        return Check(name=name, ok=False, detail=why, fix=OTHER_HOME)
    free = shutil.disk_usage(existing).free
    detail = f"{home}, {free / 1e9:.1f} GB free"
    ok = free >= LEAST_FREE_BYTES
    return Check(
        name=name, ok=ok, detail=detail, fix="" if ok else "free at least 0.5 GB, or choose another --home"
    )


def runtime_folder_usable(settings: Settings) -> Check:
    name, folder = "runtime folder", settings.runtime
    problem = runtime_problem(folder) if folder.exists() or folder.is_symlink() else ""
    fix = f"remove {folder}, or set TILTYARD_RUNTIME to another short folder" if problem else ""
    return Check(name=name, ok=not problem, detail=f"{folder} {problem}".strip(), fix=fix)


def stack_processes(settings: Settings) -> Check:
    name = "stack"
    state = read_state(StackPaths(settings.home).state)
    if state is None:
        return Check(name=name, ok=True, detail="not running; the first command that needs it starts it")
    if not state.running:
        if state.phase == "failed":
            return Check(name=name, ok=False, detail=state.message or "it could not be started", fix=FAILED_FIX)
        if state.phase != "stopped":
            return Check(name=name, ok=False, detail="was killed", fix="`tiltyard up` repairs it")
        return Check(name=name, ok=True, detail=f"not running: {state.message}")
    bad = [f"{one.name} is {one.state} ({one.detail})" for one in state.processes if one.state != "ready"]
    if bad:
        return Check(name=name, ok=False, detail="; ".join(bad), fix="see `tiltyard logs`; then `tiltyard down`")
    restarts = sum(one.restarts for one in state.processes)
    detail = f"{len(state.processes)} processes ready, {counted(restarts, 'restart')}"
    return Check(name=name, ok=True, detail=detail)


def temporal_reachable(settings: Settings) -> Check:
    name = "Temporal server"
    state = read_state(StackPaths(settings.home).state)
    if state is None or not state.running:
        return Check(name=name, ok=True, detail="not running")
    ok = ask((temporal_binary(),), state.address) is not None
    detail = f"{'answers' if ok else 'does not answer'} at {state.address}"
    return Check(name=name, ok=ok, detail=detail, fix="" if ok else HANGS)


def world_reachable(settings: Settings) -> Check:
    name = "world server"
    if not runs(settings):
        return Check(name=name, ok=True, detail="not running")
    ok = answers(settings.world_socket, ANSWER_S)
    detail = f"{'answers' if ok else 'does not answer'} at {settings.world_socket}"
    return Check(name=name, ok=ok, detail=detail, fix="" if ok else HANGS)


def signs_of_life(settings: Settings) -> Check:
    """The worker and the supervisor cannot be asked, but touch a file every second or so."""
    name, paths = "signs of life", StackPaths(settings.home)
    state = read_state(paths.state)
    if state is None or not state.running or state.phase != "ready":
        return Check(name=name, ok=True, detail="not running")
    silent = {
        process: silence_s(marker)
        for process, marker in (("supervisor", paths.state), ("worker", settings.worker_ready))
    }
    bad = [
        f"the {process} gave none for {seconds:.0f} s" for process, seconds in silent.items() if seconds > SILENT_S
    ]
    detail = "; ".join(bad) or "supervisor and worker do their work"
    return Check(name=name, ok=not bad, detail=detail, fix=HANGS if bad else "")


def databases(settings: Settings) -> Check:
    """Temporal's own database is looked at while Temporal is not running: it may be large."""
    name, paths = "databases", StackPaths(settings.home)
    files = [settings.home / "records.db", settings.home / "worlds.db"]
    problems = [database_problem(file) for file in files]
    if not runs(settings):
        files.append(paths.temporal_database)
        problems.append(damage(paths.temporal_database))
    if any(problems):
        fix = "update Tiltyard if a newer one made it; else move the file away, or choose another --home"
        return Check(name=name, ok=False, detail="; ".join(filter(None, problems)), fix=fix)
    made = [file.name for file in files if file.exists()]
    return Check(
        name=name, ok=True, detail=f"{' and '.join(made)} can be used" if made else "made at the first start"
    )


def objects(settings: Settings) -> Check:
    """Whether content can be written and read where the settings say that it lives."""
    name, where = "objects", str(settings.objects or settings.objects_folder)
    try:
        with open_objects(settings, OBJECTS_PATIENCE) as store:
            made = asyncio.run(store.try_out())
    except ObjectsUnreachable as error:
        return Check(name=name, ok=False, detail=str(error), fix=error.fix)
    except TiltyardError as error:
        fix = "mend the setting that it names, or TILTYARD_OBJECTS" if settings.objects else OTHER_HOME
        return Check(name=name, ok=False, detail=str(error), fix=fix)
    return Check(name=name, ok=True, detail=where if made else f"{where}, made with the first object")


def leases(settings: Settings) -> Check:
    """Quarantined namespaces are kept for a look and cost nothing, so they are told and are no problem."""
    found = namespaces(settings.home / "worlds.db")
    detail = ", ".join(f"{number} {state}" for state, number in found.items()) or "none yet"
    return Check(name="namespaces", ok=True, detail=detail)


CHECKS: tuple[Callable[[Settings], Check], ...] = (
    python_version,
    temporal_program,
    data_folder,
    runtime_folder_usable,
    stack_processes,
    temporal_reachable,
    world_reachable,
    sandbox_host,
    signs_of_life,
    janitor,
    versions,
    databases,
    objects,
    leases,
    bubblewrap,
    docker,
    unsafe_local,
)


def all_checks(settings: Settings) -> tuple[Check, ...]:
    """Every check; one that fails in an unforeseen way is itself a problem to report."""
    return tuple(_done(check, settings) for check in CHECKS)


def _done(check: Callable[[Settings], Check], settings: Settings) -> Check:
    try:
        return check(settings)
    except (OSError, sqlite3.Error, TiltyardError) as error:
        name = check.__name__.replace("_", " ")
        if isinstance(error, PermissionError):
            return Check(name=name, ok=False, detail=str(error), fix=OTHER_HOME)
        return Check(name=name, ok=False, detail=str(error), fix="see `tiltyard logs`")
