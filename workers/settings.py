"""Settings of every process."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Self

from pydantic import Field

from infra.local.cluster import cluster_id, kept_name
from infra.stores.s3_place import S3Place
from schemas.base import Model
from schemas.start import Tuning
from workers.environment import MOST_SLOTS, Lossy, settings_of


def usual_slots() -> int:
    """Sandboxes at once where nobody says how many: their commands wait a good part of the time."""
    return min(MOST_SLOTS, 4 * (os.cpu_count() or 1))


class Settings(Model):
    """Where everything is, and how patient it is. Durations are ``timedelta``; see ``workers.environment``."""

    home: Path
    runtime: Path
    temporal_address: str = "127.0.0.1:7233"
    temporal_namespace: str = "default"
    task_queue: str = "tiltyard"
    host_name: str | None = Field(default=None, description="none: the data folder's own host")
    search_path: str = os.defpath
    call_deadline: timedelta = timedelta(seconds=120)
    janitor_interval: timedelta = timedelta(seconds=15)
    janitor_grace: timedelta = timedelta(seconds=60)
    stranded: timedelta = timedelta(days=1)
    tuning: Tuning = Tuning()
    lossy: Lossy | None = None
    slots: int = Field(default_factory=usual_slots, ge=1, le=MOST_SLOTS)
    warm: int = Field(default_factory=usual_slots, ge=0, le=MOST_SLOTS)
    docker_runtime: str = "runc"
    objects: S3Place | None = Field(default=None, description="where content lives; none: `objects_folder`")
    given: dict[str, str] = Field(
        default_factory=dict,
        description="the variables other than places that were set, as they were read; of secrets, a digest",
    )

    @classmethod
    def from_environment(cls, home: Path | None = None, environment: Mapping[str, str] | None = None) -> Self:
        """``home`` wins over ``TILTYARD_HOME``, and that over the platform's user data folder.

        Raises ``BadInput`` that names the variable.
        """
        return cls.model_validate(settings_of(home, environment))

    @property
    def cluster(self) -> str:
        """Names the cluster that owns our leases. The first who asks makes the name, in the data folder."""
        return cluster_id(self.home)

    @property
    def host(self) -> str:
        """Names this host of sandboxes. Where nobody did, the first who asks makes the name, in the data folder, so
        that whoever comes next takes up what was meant for it."""
        if self.host_name:
            return self.host_name
        self.sandboxes.mkdir(parents=True, exist_ok=True, mode=0o700)
        return kept_name(self.sandboxes / "host")

    @property
    def _hosts_own(self) -> Path:
        """Where a host that was given a name has its things, so that several share one data folder."""
        return self.home / "hosts" / self.host_name if self.host_name else self.home

    def _at_host(self, name: str, suffix: str) -> Path:
        return self.runtime / (f"{name}-{self.host_name}{suffix}" if self.host_name else f"{name}{suffix}")

    @property
    def world_socket(self) -> Path:
        return self.runtime / "world.sock"

    @property
    def worker_ready(self) -> Path:
        """The worker writes its process id here when it polls."""
        return self._at_host("worker", ".ready")

    @property
    def sandboxes_socket(self) -> Path:
        return self._at_host("sandboxes", ".sock")

    @property
    def sandboxes(self) -> Path:
        """A folder for each sandbox that is there, or was lost and not yet given up."""
        return self._hosts_own / "sandboxes"

    @property
    def images(self) -> Path:
        """The packages that Docker's images are made of, and what is known of each image."""
        return self.home / "images"

    @property
    def sandbox_stage(self) -> Path:
        """What all sandboxes share."""
        return self._hosts_own / "sandbox-stage"

    @property
    def kill_after_commit(self) -> Path:
        """A drill: names an episode; the worker kills itself after that episode's first committed effect."""
        return self.runtime / "kill-after-commit"

    @property
    def records_url(self) -> str:
        return _database_url(self.home / "records.db")

    @property
    def worlds_url(self) -> str:
        return _database_url(self.home / "worlds.db")

    @property
    def objects_folder(self) -> Path:
        return self.home / "objects"

    @property
    def suites(self) -> Path:
        """Imported task suites, a folder for each source."""
        return self.home / "suites"

    @property
    def pins(self) -> Path:
        """Pinned episodes that lie beside no suite."""
        return self.home / "pinned"

    @property
    def templates(self) -> Path:
        """Imported templates, by their digest."""
        return self.home / "templates"


def _database_url(file: Path) -> str:
    """A name may hold what means something in a URL: ``?``, ``#``, ``%``."""
    from sqlalchemy import URL  # most commands open no database

    return URL.create("sqlite", database=str(file)).render_as_string()
