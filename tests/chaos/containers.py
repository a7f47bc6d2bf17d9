"""The containers of a data folder as the engine tells of them, and what is left of any of them on the machine."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import docker
import psutil

from infra.sandboxes.docker.engine import API
from infra.sandboxes.docker.places import FOLDER
from workers.settings import Settings

SILENCE_S = 3600
"""How long none may be made, in seconds."""


class Containers:
    """All that were ever made for one data folder."""

    def __init__(self, engine: docker.DockerClient, settings: Settings) -> None:
        self._engine = engine
        self._home = f"{(settings.sandbox_stage / 'docker' / 'containers').resolve()}/"
        self.made: set[str] = set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Hear of each that is made meanwhile."""
        patient = docker.from_env(version=API, timeout=SILENCE_S)
        told = patient.events(decode=True, filters={"event": "create", "label": FOLDER})
        ours = (one["id"] for one in told if self._is_ours(one["Actor"]["Attributes"]))
        listening = threading.Thread(target=lambda: self.made.update(ours))
        listening.start()
        try:
            yield
        finally:
            told.close()
            listening.join()
            patient.close()

    @property
    def there(self) -> list[str]:
        """Names of those that the engine has, running or not."""
        found = self._engine.containers.list(all=True, filters={"label": FOLDER}, ignore_removed=True)
        return [one.name or "" for one in found if self._is_ours(one.labels)]

    @property
    def control_groups(self) -> list[str]:
        """Of any that was made."""
        return [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if self._names_one(Path(folder).name)]

    @property
    def processes(self) -> list[str]:
        """Command lines of the engine's own for any that was made."""
        lines = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
        return [line for line in lines if self._names_one(line)]

    def _is_ours(self, labels: Mapping[str, str]) -> bool:
        return labels[FOLDER].startswith(self._home)

    def _names_one(self, text: str) -> bool:
        return any(container in text for container in self.made)
