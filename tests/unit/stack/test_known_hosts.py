"""What `tiltyard status` reads of hosts is what the records say of them."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from infra.local.databases import hosts
from infra.stores.database import open_database
from infra.stores.records import SqlRecords
from schemas.host import Capacity, HostBeat, HostRecord

CAPACITY = Capacity(slots=4, free=1)


def _before(ago: timedelta) -> datetime:
    return datetime.now(UTC) - ago


async def test_a_host_that_was_silent_for_a_day_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "records.db"
    with closing(open_database(f"sqlite:///{file}")) as database:
        for host, ago in {"old": timedelta(days=1), "new": timedelta(hours=23)}.items():
            records = SqlRecords(database, partial(_before, ago))
            await records.beat(HostBeat(host=host, task_queue="here", capacity=CAPACITY))
        await records.beat(HostBeat(host="theirs", task_queue="elsewhere", capacity=CAPACITY))
        recorded = {one.host: one.forgotten for one in await SqlRecords(database).hosts("here")}
    assert recorded == {"new": False, "old": True}
    assert [(one.host, one.capacity) for one in hosts(file, "here")] == [("new", CAPACITY)]
    assert hosts(tmp_path / "none.db", "here") == ()


def test_a_day_is_the_limit() -> None:
    silences_s = (0, 86_399.9, 86_400)
    records = [HostRecord(host="a", capacity=CAPACITY, silent_s=silent_s) for silent_s in silences_s]
    assert [one.forgotten for one in records] == [False, False, True]
