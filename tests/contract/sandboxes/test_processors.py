"""However many processes of a sandbox are busy, they take no more of the machine's processors than one."""

from collections.abc import Iterator
from pathlib import Path

from infra.sandboxes.cgroups import PERIOD_US, QUOTA_US
from tests.contract.sandboxes.abuse_yard import Yard, printed

BUSY, EACH_S = 4, 0.5
"""So many processes take so many seconds of a processor each."""

WORK = f"""
import os, resource, time
for _ in range({BUSY}):
    if not os.fork():
        while time.process_time() < {EACH_S}: pass
        os._exit(0)
for _ in range({BUSY}): os.wait()
taken = resource.getrusage(resource.RUSAGE_CHILDREN)
print(round((taken.ru_utime + taken.ru_stime) * 1e6))
"""
"""Prints what it took, in microseconds."""

SLACK = 3
"""Periods that may have begun before and end after, and what a processor may keep of an earlier one."""


def counts(folders: set[Path]) -> Iterator[dict[str, int]]:
    """What the kernel counts in groups that have a share of the processors."""
    for file in (folder / "cpu.stat" for folder in folders):
        lines = file.read_text().splitlines() if file.exists() else []
        if any(line.startswith("nr_periods ") for line in lines):
            yield {name: int(value) for name, _, value in (line.partition(" ") for line in lines)}


async def test_busy_processes_share_one_processor(yard: Yard) -> None:
    """The kernel counts the periods in which somebody was busy: in each they got no more than their share."""
    yard.needs("processors")
    async with yard.sandbox() as box:
        groups = yard.watched.groups[box.order.name]
        took_us = int(await printed(box, WORK))
        (found,) = counts(groups)
    assert took_us >= BUSY * EACH_S * 1e6
    assert took_us <= QUOTA_US * (found["nr_periods"] + SLACK)
    assert QUOTA_US == PERIOD_US
