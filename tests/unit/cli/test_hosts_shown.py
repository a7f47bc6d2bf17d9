"""Hosts of sandboxes, as ``tiltyard status`` prints them: one that is gone has no room for anybody."""

import pytest

from ops.cli.hosts import as_json, row
from schemas.host import Capacity, HostRecord


@pytest.mark.parametrize(
    ("silent_s", "state", "free", "shown"),
    [(119.9, "there", 3, "3"), (120.0, "there", 3, "3"), (120.1, "lost", None, "-")],
)
def test_a_host_is_lost_after_the_outage(silent_s: float, state: str, free: int | None, shown: str) -> None:
    told = as_json(HostRecord(host="b", capacity=Capacity(slots=4, free=3), silent_s=silent_s), 120)
    assert (told["state"], told["free"], told["slots"]) == (state, free, 4)
    assert row(told) == ("b", state, "4", shown, f"{silent_s} s ago")
