"""Keeps one child running: starts it, sees it become ready, restarts it after a death, gives up in the end."""

import logging
import signal
import subprocess
import time

from infra.local.children import Child
from infra.local.config import Patience
from infra.local.logs import tail
from infra.local.paths import StackPaths
from infra.local.processes import identify, spawn
from infra.local.state import ProcessState
from tiltyard.errors import StackFailed

log = logging.getLogger(__name__)


class Keeper:
    """One child over all its processes. ``step`` is called again and again and never waits long.

    waiting → starting → ready → (death, or ``ending`` because it must be restarted) → restarting → starting …
    """

    def __init__(self, child: Child, paths: StackPaths, patience: Patience) -> None:
        self.child = child
        self._log, self._patience = paths.log(child.name), patience
        self._process: subprocess.Popen[bytes] | None = None
        self._environment: dict[str, str] = {}
        self._since = self._retry_at = 0.0
        self._quick_deaths = 0
        self._sign, self._silent_s, self._looked_at = 0, 0.0, 0.0
        self.state = ProcessState(name=child.name)

    @property
    def ready(self) -> bool:
        return self.state.state == "ready"

    def step(self) -> None:
        """Do what is due. Raises ``StackFailed`` when it gives up."""
        if self._process is None:
            if time.monotonic() >= self._retry_at:
                self._start()
        elif self._process.poll() is not None:
            self._died(self._process.returncode)
        else:
            {"starting": self._look_for_ready, "ready": self._look_after, "ending": self._insist}[self.state.state](
                self._process
            )

    def _start(self) -> None:
        self.child.prepare()
        self.child.clear()
        argv, self._environment = self.child.argv(), self.child.environment()
        try:
            self._process = spawn(argv, self._log, self._environment, self.child.folder, self.child.inherits)
        except OSError as error:
            raise StackFailed(f"{self.child.name} cannot be started: {error}. Run `tiltyard doctor`") from error
        self._since = time.monotonic()
        self._now("starting", process=identify(self._process.pid), since=time.time(), detail="")

    def _look_for_ready(self, process: "subprocess.Popen[bytes]") -> None:
        if self.child.ready(process.pid):
            self._looked_at, self._silent_s = time.monotonic(), 0.0
            self._now("ready")
            log.info("%s is ready (process %d)", self.child.name, process.pid)
        elif self._lived_s > self._patience.start_s:
            log.warning("%s was not ready within %g s: killed", self.child.name, self._patience.start_s)
            process.kill()

    def _look_after(self, process: "subprocess.Popen[bytes]") -> None:
        self._listen()
        hangs = self._silent_s > self._patience.silence_s
        changed = self.child.environment() != self._environment
        if hangs or changed or not self.child.intact():
            why = (
                f"it gave no sign of life for {self._silent_s:.0f} s"
                if hangs
                else "its settings have changed"
                if changed
                else "its socket or its ready file has vanished"
            )
            log.warning("restarting %s: %s", self.child.name, why)
            process.send_signal(signal.SIGKILL if hangs else signal.SIGTERM)
            self._since = time.monotonic()
            self._now("ending", detail=why)

    def _listen(self) -> None:
        """Count the silence in our own looks, each for a second at most: a machine that slept was not silent."""
        now, sign = time.monotonic(), self.child.sign()
        self._silent_s = self._silent_s + min(now - self._looked_at, 1.0) if sign == self._sign else 0.0
        self._looked_at, self._sign = now, sign

    def _insist(self, process: "subprocess.Popen[bytes]") -> None:
        if self._lived_s > self._stop_s:
            process.kill()

    def _died(self, code: int) -> None:
        reason = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        log.warning("%s %s (%s for %.1f s)", self.child.name, reason, self.state.state, self._lived_s)
        asked = self.state.state == "ending"
        quick = not asked and (self.state.state == "starting" or self._lived_s < self._patience.quick_s)
        self._quick_deaths = self._quick_deaths + 1 if quick else 0
        if self._quick_deaths >= self._patience.quick_deaths:
            raise StackFailed(self._epitaph(reason))
        delays = self._patience.backoff_s
        self._retry_at = time.monotonic() + delays[min(max(self._quick_deaths - 1, 0), len(delays) - 1)]
        self._process = None
        self._now(
            "restarting",
            process=None,
            restarts=self.state.restarts + 1,
            detail=self.state.detail if asked else reason,
        )

    def _epitaph(self, reason: str) -> str:
        last = [line for line in tail(self._log, 3) if line.strip()]
        said = f"; its last words: {last[-1][:300]}" if last else ""
        return (
            f"{self.child.name} died {self._quick_deaths} times in a row soon after its start ({reason}{said}). "
            f"See `tiltyard logs {self.child.name}` and `tiltyard doctor`"
        )

    def stop(self) -> None:
        """End the process and wait for that: TERM, and KILL when the patience has passed."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(self._stop_s)
        except subprocess.TimeoutExpired:
            log.warning("%s did not end within %g s: killed", self.child.name, self._stop_s)
            self._process.kill()
            self._process.wait()
        self._process = None
        self.child.clear()
        self._now("ended", process=None)

    @property
    def _stop_s(self) -> float:
        return max(self._patience.stop_s, self.child.stop_s)

    @property
    def _lived_s(self) -> float:
        """Seconds since the process started, or since it was asked to end."""
        return time.monotonic() - self._since

    def _now(self, state: str, **changes: object) -> None:
        self.state = ProcessState.model_validate({**self.state.model_dump(), "state": state, **changes})
