"""The digest of the program itself, so that a stack that runs older code is noticed and restarted."""

import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib import metadata
from pathlib import Path

PACKAGES = ("schemas", "tiltyard", "infra", "activities", "workflows", "workers", "tasks")
SUFFIXES = frozenset({".py", ".yaml", ".yml", ".json", ".md", ".mako", ".ini"})


def code_digest(root: Path | None = None) -> str:
    """Digest of all sources below the project's root and of the interpreter and SDK that run them."""
    root = root or Path(__file__).resolve().parents[2]
    running = sha256(f"{sys.version} {sys.executable} {metadata.version('temporalio')}".encode())
    for path in _sources(root):
        running.update(f"\0{path.relative_to(root)}\0".encode())
        running.update(path.read_bytes())
    return "sha256:" + running.hexdigest()


def _sources(root: Path) -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted(
            path for path in (root / package).rglob("*") if path.suffix in SUFFIXES and path.is_file()
        )
