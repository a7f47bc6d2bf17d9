"""Looking at processes from outside: who is below another one, and whether those that were killed have gone."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PAUSE_S, LOOKS = 0.003, 1700
"""How often, and how many times, it is looked whether a killed sandbox has gone: about five seconds."""


def below(pid: int) -> set[int]:
    """All that descend from a process, those that ended and were not waited for included.

    Orphans are the children of the first process of their namespace, so below that one is all of the namespace.
    One that is born meanwhile may be missed: that nobody is there is certain only when nobody was seen.
    """
    found: set[int] = set()
    new = _children(pid)
    while new:
        found |= new
        new = {child for parent in new for child in _children(parent)} - found
    return found


def is_told() -> bool:
    """Whether this kernel tells the children of a process (CONFIG_PROC_CHILDREN; those of distributions do)."""
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").exists()


def _children(pid: int) -> set[int]:
    """What all of its threads have started; of a process that is gone, nothing."""
    found: set[int] = set()
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found |= set(map(int, (thread / "children").read_text().split()))
    return found


def in_time(holds: Callable[[], bool]) -> bool:
    """Whether it holds within the time that a killed sandbox has to go."""
    for _ in range(LOOKS):
        if holds():
            return True
        time.sleep(PAUSE_S)
    return False
