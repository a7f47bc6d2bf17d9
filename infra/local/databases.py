"""The embedded stack's databases as a doctor sees them: read, never written, never migrated."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from schemas.host import Capacity, HostRecord


def damage(file: Path) -> str:
    """What keeps a database from being read, or nothing; also of one that others made."""
    if not file.exists():
        return ""
    try:
        with closing(_reading(file)) as database:
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return f"{file} cannot be read: {error}"
    return "" if verdict == "ok" else f"{file} is damaged: {verdict}"


def database_problem(file: Path) -> str:
    """What keeps a database of ours from being used, or nothing. A missing one is made at the first start."""
    damaged = damage(file)
    if damaged or not file.exists():
        return damaged
    try:
        with closing(_reading(file)) as database:
            found = [name for (name,) in database.execute("SELECT version_num FROM alembic_version")]
    except sqlite3.DatabaseError as error:
        return f"{file} cannot be read: {error}"
    from alembic.script import ScriptDirectory  # slow to import, and most commands only count

    from infra.stores.database import MIGRATIONS

    known = {one.revision for one in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}
    strange = [name for name in found if name not in known]
    return f"{file} was made by a newer version of Tiltyard (revision {strange[0]})" if strange else ""


def _reading(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=10)


def open_episodes(file: Path) -> int:
    """How many episodes of the records' database have no outcome yet; 0 without a database that can be read."""
    try:
        with closing(_reading(file)) as database:
            (number,) = database.execute(
                "SELECT count(*) FROM episode LEFT JOIN outcome USING (episode_id) WHERE outcome.episode_id IS NULL"
            ).fetchone()
    except sqlite3.Error:
        return 0
    return int(number)


def hosts(file: Path, task_queue: str) -> tuple[HostRecord, ...]:
    """Hosts of sandboxes that were heard of lately, by name; none without a database that can be read."""
    try:
        with closing(_reading(file)) as database:
            rows = database.execute(
                "SELECT host, slots, free, beat_s FROM host WHERE task_queue = ? ORDER BY host", (task_queue,)
            ).fetchall()
    except sqlite3.Error:
        return ()
    now_s = time.time()
    known = (
        HostRecord(host=host, capacity=Capacity(slots=slots, free=free), silent_s=max(0.0, now_s - beat_s))
        for host, slots, free, beat_s in rows
    )
    return tuple(one for one in known if not one.forgotten)


def namespaces(file: Path) -> dict[str, int]:
    """How many namespaces of the worlds' database are free, leased, sealed, drained and quarantined."""
    if not file.exists():
        return {}
    with closing(_reading(file)) as database:
        return dict(database.execute("SELECT state, count(*) FROM namespace GROUP BY state ORDER BY state"))
