"""Packages of the host's package manager, fetched and unpacked without installing anything on the host.

apt resolves as if nothing were installed, so that an image depends on what its sources offer and not on the machine
that it is built on, and checks what it fetches.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from shutil import which

from tiltyard.errors import EnvironmentFailed, SandboxUnavailable

FETCH_S = 600
"""How long apt may take to fetch all packages of an image, in seconds."""

_INSTALLS = re.compile(r"^Inst (\S+) \((\S+) .*\[(\w+)\]\)", re.MULTILINE)
"""A line of what apt would do: name, version, architecture."""

FIX = "run `apt-get update`, or give a rootfs: `tiltyard images build --rootfs FILE`"


def fetch(names: Sequence[str], cache: Path) -> tuple[Path, ...]:
    """The package files of ``names`` and all that they depend on, sorted by name. What is in ``cache`` is not
    fetched again. Raises ``EnvironmentFailed``, and ``SandboxUnavailable`` on a machine without apt.
    """
    if which("apt-get") is None or which("dpkg-deb") is None:
        raise SandboxUnavailable(
            "there is no apt-get and dpkg-deb to build images with",
            fix="give a rootfs: `tiltyard images build --rootfs FILE`",
        )
    (cache / "partial").mkdir(parents=True, exist_ok=True)
    nothing = cache / "nothing-installed"
    nothing.touch()
    options = {
        "Dir::State::status": nothing,
        "Dir::Cache::archives": cache,
        "Debug::NoLocking": 1,
        "APT::Install-Recommends": 0,
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-qq", "-y", *(f"-o{name}={value}" for name, value in options.items())]
    planned = _run([*apt, "--simulate", "install", *names])
    _run([*apt, "--download-only", "install", *names])
    return tuple(sorted(cache / _file_of(*found.groups()) for found in _INSTALLS.finditer(planned)))


def unpacked(package: Path) -> bytes:
    """The tar archive of a package's files. Raises ``EnvironmentFailed``."""
    try:
        done = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise EnvironmentFailed(f"{package.name} cannot be unpacked: {error}; remove it and build again") from error
    return done.stdout


def _file_of(name: str, version: str, architecture: str) -> str:
    return f"{name}_{version.replace(':', '%3a')}_{architecture}.deb"


def _run(command: list[str]) -> str:
    """Its output. Nobody is asked anything, and no setting of the user's is heard."""
    environment = {"PATH": os.defpath, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_S, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFailed(f"packages cannot be fetched: {error}", fix=FIX) from error
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise EnvironmentFailed(f"packages cannot be fetched: {said}", fix=FIX)
    return done.stdout
