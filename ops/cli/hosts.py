"""Hosts of sandboxes, as ``tiltyard status`` tells of them."""

from typing import Any

from schemas.host import HostRecord

COLUMNS = ("HOST OF SANDBOXES", "STATE", "#SLOTS", "#FREE", "#SEEN")


def as_json(record: HostRecord, outage_s: float) -> dict[str, Any]:
    """One host. What has been silent for longer than ``outage_s`` is lost: it has no room for anybody."""
    lost = record.silent_s > outage_s
    return {
        "host": record.host,
        "state": "lost" if lost else "there",
        "slots": record.capacity.slots,
        "free": None if lost else record.capacity.free,
        "silent_s": round(record.silent_s, 1),
    }


def row(told: dict[str, Any]) -> tuple[str, ...]:
    """The same for people."""
    free = "-" if told["free"] is None else str(told["free"])
    return (told["host"], told["state"], str(told["slots"]), free, f"{told['silent_s']} s ago")
