"""The driver that isolates nothing: commands run as the user of the host, with all that this user may do.

For machines that cannot isolate. Episodes with it are marked, and tasks with hidden tests refuse it.
"""

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

from infra.local.processes import ProcessId, alive, identify
from infra.sandboxes import compiled
from infra.sandboxes.launching import ITSELF, Renewal
from infra.sandboxes.records import JOURNAL
from infra.sandboxes.seeing import told_here
from infra.sandboxes.threads import in_thread
from schemas.sandbox import DriverName, Enforced, SandboxOffer, SandboxOrder
from tiltyard.errors import EnvironmentFailed, SandboxUnavailable

__all__ = ["ENFORCED", "UnsafeLocalLauncher", "UnsafeLocalSandbox"]

ENFORCED: tuple[Enforced, ...] = ("cpu", "output")
"""What holds without isolation: what the kernel counts for each process, and what the supervisor keeps."""

WORK, LAST_WORDS = "work", "last-words"
"""In a sandbox's folder: its files, the supervisor's receipts, and what it says when it cannot go on."""

SEARCH_PATH = ":".join(dict.fromkeys((f"{sys.base_prefix}/bin", "/usr/local/bin", "/usr/bin", "/bin")))

ROUNDS, PAUSE_S = 100, 0.02
"""How often it is looked whether processes that were killed have gone: two seconds."""


class UnsafeLocalSandbox:
    """Implements ``Launched``: a folder, and processes that are recognised as well as can be."""

    def __init__(self, control: socket.socket, supervisor: "subprocess.Popen[bytes]", folder: Path) -> None:
        self.control = control
        self.supervisor, self._folder = supervisor, folder
        self._identity = identify(supervisor.pid)
        named = self._identity.model_dump() if self._identity else None
        self.identity: dict[str, object] = {"folder": str(folder), "supervisor": named}
        self.made_of = ITSELF
        self.setup: dict[str, object] = {"pid_one": False, "work": str(folder / WORK)}
        self.journal = folder / JOURNAL
        self.renewal: Renewal | None = None

    def processes(self) -> tuple[int, ...]:
        return tuple(sorted(one.pid for one in _family(self._identity, self._folder)))

    def memory_kills(self) -> int:
        return 0

    def end(self) -> bool:
        _end(self._identity, self._folder)
        for _ in range(ROUNDS):
            if self.supervisor.poll() is not None and not self.processes():
                return _remove(self._folder / WORK)
            time.sleep(PAUSE_S)
        return False


class UnsafeLocalLauncher:
    """Implements ``Launcher``."""

    driver: DriverName = "unsafe-local"

    def __init__(self) -> None:
        self._supervisor: bytes | None = None

    def offer(self) -> SandboxOffer:
        if platform.system() == "Linux":
            return SandboxOffer(driver=self.driver, available=True, enforced=ENFORCED, sees=told_here())
        return SandboxOffer(
            driver=self.driver,
            available=False,
            problem="processes are found and ended through /proc, which Linux alone has",
            fix="run tasks that need no commands, or a Linux machine",
        )

    async def launch(self, order: SandboxOrder, folder: Path) -> UnsafeLocalSandbox:
        """A supervisor with a work folder below ``folder``."""
        offer = self.offer()
        if not offer.available:
            raise SandboxUnavailable(f"{offer.problem}; {offer.fix}")
        return await in_thread(lambda: self._launched(folder))

    def _launched(self, folder: Path) -> UnsafeLocalSandbox:
        """Each has a copy of its own of the supervisor, compiled for the first one: nothing keeps it from it."""
        folder.mkdir(parents=True, exist_ok=True)
        if self._supervisor is None:
            self._supervisor = _compiled(folder)
        (folder / compiled.NAME).write_bytes(self._supervisor)
        return _start(folder)

    async def find(self, identity: dict[str, object]) -> None:
        """None outlives its host."""

    def sweep(self, identity: dict[str, object]) -> bool:
        """End what is left of a sandbox of an earlier process, and remove its files; whether nothing is left."""
        named = identity.get("supervisor")
        supervisor = ProcessId.model_validate(named) if isinstance(named, dict) else None
        folder = Path(str(identity["folder"]))
        _end(supervisor, folder)
        return not _family(supervisor, folder) and _remove(folder / WORK)

    def strays(self) -> int:
        """None: without its folder nothing of a sandbox can be told from what is the user's own."""
        return 0


def _compiled(folder: Path) -> bytes:
    try:
        return compiled.compile_supervisor(Path(sys.executable), folder).read_bytes()
    except compiled.NotCompiled as error:
        raise EnvironmentFailed(str(error)) from error


def _start(folder: Path) -> UnsafeLocalSandbox:
    (folder / WORK).mkdir()
    with ExitStack() as undo, ExitStack() as ours:
        control, theirs = map(undo.enter_context, socket.socketpair())
        ours.enter_context(theirs)
        journal = ours.enter_context((folder / JOURNAL).open("ab+", buffering=0))
        words = ours.enter_context((folder / LAST_WORDS).open("wb"))
        passed = (theirs.fileno(), journal.fileno())
        supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", str(folder / compiled.NAME), *map(str, passed)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
            cwd=folder,
            env={"PATH": SEARCH_PATH},
            pass_fds=passed,
            start_new_session=True,
        )
        undo.pop_all()
    return UnsafeLocalSandbox(control, supervisor, folder)


def _family(supervisor: ProcessId | None, folder: Path) -> set[psutil.Process]:
    """The supervisor, what descends from it, and what a dead one has left.

    Those are whoever has the work folder as its home or stands in the sandbox's folder. A program that changed both
    after it killed its supervisor is not found: nothing isolates it.
    """
    found = {one for one in psutil.process_iter() if _is_left(one, folder)}
    if supervisor is not None and alive(supervisor):
        with suppress(psutil.NoSuchProcess):
            head = psutil.Process(supervisor.pid)
            found |= {head, *head.children(recursive=True)}
    return {one for one in found if _lives(one)}


def _is_left(process: psutil.Process, folder: Path) -> bool:
    try:
        stands_in_it = Path(process.cwd()).is_relative_to(folder)
        return stands_in_it or process.environ().get("HOME") == str(folder / WORK)
    except (psutil.Error, OSError):
        return False


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


def _end(supervisor: ProcessId | None, folder: Path) -> None:
    """Stop all, so that none forks while another is killed; then kill, the supervisor last.

    It is the parent of those that its commands leave: while it is there, stopped or not, they can be found.
    """
    for _ in range(ROUNDS):
        everyone = _family(supervisor, folder)
        others = {one for one in everyone if supervisor is None or one.pid != supervisor.pid}
        _signal(everyone, signal.SIGSTOP)
        _kill_groups(supervisor)
        _signal(others or everyone, signal.SIGKILL)
        if not others:
            return
        time.sleep(PAUSE_S)


def _kill_groups(supervisor: ProcessId | None) -> None:
    """Kill the groups of a stopped supervisor's children, the ended ones too, which keep the numbers of theirs.

    One that goes on in a new process all the time is never there when it is looked for, and is in its group.
    """
    if supervisor is None or not alive(supervisor):
        return
    with suppress(psutil.Error, OSError):
        for child in psutil.Process(supervisor.pid).children():
            if (group := os.getpgid(child.pid)) != os.getpgid(supervisor.pid):
                os.killpg(group, signal.SIGKILL)


def _signal(processes: set[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(number)


def _remove(folder: Path) -> bool:
    """Remove a folder with all that is in it, also what even its owner may not enter; whether it is gone."""
    with suppress(FileNotFoundError):
        folder.chmod(0o700)
    for place, folders, _ in os.walk(folder):
        for inner in (Path(place, name) for name in folders):
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
