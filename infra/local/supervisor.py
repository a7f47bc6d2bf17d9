"""The supervisor: a small process that starts the stack, watches it, and ends with it.

It has one thread, wakes when a child dies or a signal comes, and writes what it knows to a file that commands
read. Run as ``python -m infra.local.supervisor CONFIG_FILE``.
"""

import logging
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from infra.local.children import children
from infra.local.config import StackConfig
from infra.local.hold import FolderHold
from infra.local.keeper import Keeper
from infra.local.logs import rotate
from infra.local.paths import PROCESSES
from infra.local.processes import identify, keep_to_itself
from infra.local.runtime import Runtime
from infra.local.signals import Signals
from infra.local.state import Phase, StackState, keep_written
from infra.local.temporal import TemporalServer
from tiltyard.errors import StackFailed

log = logging.getLogger("supervisor")

LOOK_S = 2.0
"""Longer than a command holds the supervisor's lock, which it does to see whether anybody else does."""

STARTING_TICK_S, READY_TICK_S = 0.05, 0.5


class Supervisor:
    """Keeps the children of one stack running until it is asked to end, is idle, or has to give up."""

    def __init__(self, config: StackConfig) -> None:
        self._config, self._paths = config, config.paths
        self._temporal = TemporalServer(config)
        self._runtime = Runtime(config.home, config.runtime)
        self._stack = FolderHold(self._paths.stack)
        table = children(config, self._temporal, self._runtime)
        self._keepers = [Keeper(one, self._paths, config.patience) for one in table]
        self._phase: Phase = "starting"
        self._missing = False
        self._message = ""
        self._keep_at = time.monotonic() + config.patience.keep_s

    def run(self) -> int:
        """Supervise to the end; the exit code (1 when it gave up)."""
        signals = Signals()
        self._stack.take()
        try:
            self._runtime.ready()
            while not signals.asked:
                self._step()
                signals.wait(READY_TICK_S if self._phase == "ready" else STARTING_TICK_S)
            self._end("stopped", "ended by `tiltyard down`")
        except _Idle as idle:
            self._end("stopped", str(idle))
        except _Homeless:
            self._stop_children()
        except StackFailed as gave_up:
            log.error("giving up: %s", gave_up)
            self._end("failed", str(gave_up))
        return 1 if self._phase == "failed" else 0

    def _step(self) -> None:
        if not self._stack.holds:
            raise _Homeless
        for keeper in self._keepers:
            keeper.step()
        self._phase = "ready" if all(keeper.ready for keeper in self._keepers) else "starting"
        self._write()
        if time.monotonic() >= self._keep_at:
            self._keep_at = time.monotonic() + self._config.patience.keep_s
            self._keep_house()

    def _keep_house(self) -> None:
        for name in PROCESSES:
            rotate(self._paths.log(name))
        if self._phase == "ready" and self._looks_idle() and self._temporal.busy() == 0:
            self._end_if_still_idle()

    def _looks_idle(self) -> bool:
        if self._paths.pinned.exists():
            return False
        with suppress(FileNotFoundError):
            return time.time() - self._paths.activity.stat().st_mtime > self._config.patience.idle_s
        return False

    def _end_if_still_idle(self) -> None:
        """A command marks its activity under the same lock, so none can find a stack that is about to end."""
        with suppress(Timeout), FileLock(self._paths.lock, timeout=0):
            if self._looks_idle():
                self._phase = "stopping"
                self._write()
                raise _Idle(f"ended after {self._config.patience.idle_s / 60:g} idle minutes")

    def _end(self, phase: Phase, message: str) -> None:
        self._phase, self._message = "stopping", message
        self._write()
        self._stop_children()
        self._phase = phase
        self._write()

    def _stop_children(self) -> None:
        for keeper in reversed(self._keepers):
            keeper.stop()
        self._runtime.leave()

    def _write(self) -> None:
        me = identify(os.getpid())
        if me is None:
            raise StackFailed("the supervisor cannot tell its own identity")
        state = StackState(
            phase=self._phase,
            supervisor=me,
            config_digest=self._config.digest,
            settings=self._config.settings,
            address=self._temporal.address,
            message=self._message,
            processes=tuple(keeper.state for keeper in self._keepers),
        )
        missing = not self._paths.state.exists()
        if missing and not self._missing and self._phase == "ready":
            self._missing = True  # perhaps the data folder is just being removed: the next step sees it
            return
        self._missing = False
        with suppress(FileNotFoundError):
            keep_written(self._paths.state, state.model_dump_json(indent=1))


class _Idle(Exception):
    """Nobody needs the stack."""


class _Homeless(Exception):
    """The data folder has been removed, and perhaps made again: that one is another stack's."""


def main(argv: list[str]) -> int:
    """Run one supervisor; a second one for the same data folder ends at once."""
    config = StackConfig.model_validate_json(Path(argv[0]).read_bytes())
    keep_to_itself()  # it may have inherited the keys to where content lives
    os.setsid()
    os.umask(0o077)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    try:
        with FileLock(config.paths.supervisor_lock, timeout=LOOK_S):
            log.info("supervisor of %s", config.home)
            return Supervisor(config).run()
    except Timeout:
        log.error("another supervisor holds %s", config.home)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
