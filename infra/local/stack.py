"""The embedded stack from a command's side: bring it up, look at it, take it down.

Two commands at once are safe: whoever holds the lock starts or stops, the other one waits and looks again.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from filelock import FileLock, Timeout

from infra.local.config import StackConfig
from infra.local.logs import tail
from infra.local.paths import StackPaths
from infra.local.processes import ProcessId, alive, end, gone, identify, spawn_detached
from infra.local.runtime import prepare_runtime, sweep_runtime
from infra.local.state import SILENT_S, StackState, current_state, discard, read_state, silence_s, write_atomically
from tiltyard.errors import StackFailed

Say = Callable[[str], None]

CHANGED = "the code or the settings have changed since the stack was started: restarting it"
HANGS = "the stack's supervisor does not answer: restarting the stack"
KILLED = "the stack was killed: repairing it"

GO_ON = (
    "What was begun is kept: `tiltyard episodes list` names the episodes, and "
    "`tiltyard episodes watch EPISODE` starts the stack and follows one"
)

LOCK_S = 120.0
STOP_S = 65.0
WATCH_S = 5.0
"""How long a supervisor that was silent has to show itself: it may have slept with the machine."""


def look(paths: StackPaths) -> StackState | None:
    """The running stack's state; ``None`` when none runs."""
    state = current_state(paths)
    return state if state and state.running else None


def bring_up(config: StackConfig, say: Say, *, pinned: bool = False) -> StackState:
    """Return the running stack, starting, repairing or restarting it first where needed.

    ``pinned`` keeps it from ending when idle. Raises ``StackFailed`` with the cause when it does not come up.
    """
    paths = config.paths
    _make(paths)
    with _locked(paths, say):
        paths.activity.touch()
        if pinned:
            paths.pinned.touch()
        supervisor = _usable_supervisor(config, say)
        return _await_ready(config, supervisor or _start(config, say))


def stay_up(config: StackConfig, address: str, say: Say) -> None:
    """For a command that waits, every few seconds: say that the stack is in use, and repair one that was killed.

    Raises ``StackFailed`` when the stack was ended, has given up, runs with other settings, or serves elsewhere
    than at ``address``, where the command looks for it; the message says how to go on.
    """
    note_activity(config.paths)
    state = look(config.paths) or _revive(config, say)
    if state and state.settings != config.settings:
        now = " ".join(f"{name}={value}" for name, value in state.settings.items()) or "none"
        raise StackFailed(f"another command has restarted the stack with other settings ({now}). {GO_ON}")
    if state and state.address not in ("", address):
        raise StackFailed(f"the stack has moved to {state.address}, for somebody took its port. {GO_ON}")


def _revive(config: StackConfig, say: Say) -> StackState | None:
    """The repaired stack; ``None`` while another command starts or ends it, or its state is being written."""
    paths = config.paths
    try:
        if not paths.stack.is_dir():
            raise StackFailed(f"the data folder {config.home} has been removed under the stack")
        with FileLock(paths.lock, timeout=0), FileLock(paths.supervisor_lock, timeout=0):
            last = read_state(paths.state)
    except Timeout:
        return None
    if last is None or last.phase not in ("starting", "ready"):
        raise StackFailed(f"the stack has ended: {last.message if last else 'it left no word'}. {GO_ON}")
    return bring_up(config, say)


def take_down(paths: StackPaths, say: Say) -> bool:
    """End the stack and whatever it recorded; running episodes stay in the data folder. False: nothing ran."""
    if not paths.stack.is_dir():
        return False
    with _locked(paths, say):
        paths.pinned.unlink(missing_ok=True)
        return _end_everything(paths)


def _make(paths: StackPaths) -> None:
    try:
        paths.make()
    except OSError as error:
        raise StackFailed(
            f"the data folder {paths.home} cannot be used ({error.strerror}): choose another one with --home"
        ) from error


@contextmanager
def _locked(paths: StackPaths, say: Say) -> Iterator[None]:
    lock = FileLock(paths.lock)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say("another command is starting or stopping the stack: waiting for it")
        try:
            lock.acquire(timeout=LOCK_S)
        except Timeout:
            raise StackFailed(
                f"another command has held {paths.lock} for {LOCK_S:g} s: end it, then run `tiltyard doctor`"
            ) from None
    try:
        yield
    finally:
        lock.release()


def _usable_supervisor(config: StackConfig, say: Say) -> ProcessId | None:
    """The running supervisor of this very configuration; any other is ended with all that it left."""
    state = current_state(config.paths)
    if state and state.phase in ("starting", "ready"):
        hangs = state.running and _hangs(config.paths)
        if state.running and state.config_digest == config.digest and not hangs:
            return state.supervisor
        say(KILLED if not state.running else HANGS if hangs else CHANGED)
    _end_everything(config.paths)
    return None


def _end_everything(paths: StackPaths) -> bool:
    """End the supervisor, which ends its children; then by identity whatever a killed one left behind."""
    state = current_state(paths)
    if state is None:
        return False
    found = alive(state.supervisor)
    end(state.supervisor, 0 if found and _hangs(paths) else STOP_S)
    last = read_state(paths.state) or state
    left = [one.process for one in (*last.processes, *state.processes) if alive(one.process)]
    for process in left:
        end(process)
    sweep_runtime(paths.home)
    return found or bool(left)


def _hangs(paths: StackPaths) -> bool:
    """Whether the supervisor does not look after the stack: long silent, and no sign of life while we watch."""
    deadline = time.monotonic() + WATCH_S
    while silence_s(paths.state) > 2 * SILENT_S:
        if time.monotonic() > deadline:
            return True
        time.sleep(0.1)
    return False


def _start(config: StackConfig, say: Say) -> ProcessId:
    paths = config.paths
    prepare_runtime(config.home, config.runtime)
    say(f"starting the stack in {config.home} (`tiltyard down` ends it)")
    write_atomically(paths.config, config.text)
    discard(paths.state)
    argv = [sys.executable, "-P", "-m", "infra.local.supervisor", str(paths.config)]
    pid = spawn_detached(argv, paths.log("supervisor"))
    supervisor = identify(pid)
    if supervisor is None:
        raise StackFailed(_why_it_ended(paths))
    return supervisor


def _await_ready(config: StackConfig, supervisor: ProcessId) -> StackState:
    """Wait for all processes to be ready. A supervisor that gives up says why in its last state."""
    deadline = time.monotonic() + 2 * config.patience.start_s
    while time.monotonic() < deadline:
        ended = gone(supervisor, 0)
        state = read_state(config.paths.state)
        if state and state.supervisor == supervisor and state.phase == "ready" and not ended:
            return state
        if ended:
            sweep_runtime(config.home)
            raise StackFailed(state.message if state and state.message else _why_it_ended(config.paths))
        time.sleep(0.03)
    waiting = [one.name for one in state.processes if one.state != "ready"] if state else ["supervisor"]
    raise StackFailed(
        f"the stack is not ready: {', '.join(waiting)} did not start. See `tiltyard logs {waiting[0]}`"
    )


def _why_it_ended(paths: StackPaths) -> str:
    said = next(iter(tail(paths.log("supervisor"), 1)), "it left no word")
    return f"the supervisor ended at once: {said}. See `tiltyard logs supervisor`"


def note_activity(paths: StackPaths) -> None:
    """Say that the stack is in use, which starts its idle time anew. Without a data folder: nothing."""
    with suppress(OSError):
        paths.activity.touch()
