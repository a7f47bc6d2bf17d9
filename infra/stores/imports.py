"""Keeping what an importer made, in the data folder."""

import json
from pathlib import Path

from infra.stores.whole_files import write_whole
from tiltyard.errors import EnvironmentFailed
from tiltyard.importing.tau2 import Imported
from tiltyard.worlds.imported import file_of, kept


def keep(imported: Imported, home: Path, templates: Path, suites: Path) -> Path:
    """Write the template, then the task file that needs it; where the task file is.

    Each appears whole or not at all, and takes the place of an earlier import of the same family. A template that
    earlier tasks name stays. Raises ``EnvironmentFailed`` when the data folder ``home`` cannot be written.
    """
    template = templates / file_of(imported.template.digest)
    tasks = suites / imported.report.source / imported.world / f"{imported.family}.json"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)  # private, as the stack makes it
        for path, data in (
            (template, kept(imported.world, imported.template)),
            (tasks, json.dumps(imported.file, ensure_ascii=False, indent=1).encode()),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, data)
    except OSError as error:
        raise EnvironmentFailed(f"the data folder {home} cannot be written: {error}") from error
    return tasks
