"""How long an episode is said to have waited for its worker: as long as passes came when they were due."""

from datetime import timedelta
from pathlib import Path

import pytest

from schemas.upgrade import Stranded
from schemas.upkeep import UpkeepOrder, UpkeepSummary
from workers.settings import Settings
from workers.worker import upkeep_order
from workflows.janitor import waited_s

DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("every_s", "later_s", "counted_s"),
    [
        (15, 15, 15),
        (15, 100, 100),  # the pass before took that long
        (15, 10 * DAY_S, 120),  # the stack was down
        (300, 300, 300),
        (DAY_S, DAY_S, DAY_S),
        (DAY_S, 10 * DAY_S, 2 * DAY_S),
        (15, -5, 0),  # a clock was set back
    ],
)
def test_time_counts_up_to_twice_the_interval(
    tmp_path: Path, every_s: float, later_s: float, counted_s: float
) -> None:
    settings = Settings(home=tmp_path, runtime=tmp_path, janitor_interval=timedelta(seconds=every_s))
    one = Stranded(episode_id="one", version="old", reason="a timer in its place", waited_s=7)
    last = UpkeepSummary(stranded=(one,), at_s=1_000)
    assert waited_s(last, upkeep_order(settings), 1_000 + later_s) == {"one": 7 + counted_s}


def test_the_first_pass_knows_of_none() -> None:
    assert waited_s(None, UpkeepOrder(), 1_000) == {}
