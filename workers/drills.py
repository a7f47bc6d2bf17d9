"""Drills: a person asks the ground to fail on purpose, to see that nothing is lost."""

import os
import signal
from pathlib import Path

from tiltyard.episode.slices import Committed


def kill_after_commit(marker: Path) -> Committed:
    """Kill this process with SIGKILL after the first committed effect of the episode that ``marker`` names.

    The marker is removed first, so it happens once. Nothing of the effect has been journalled by then: it is the
    worst moment to die.
    """

    def committed(episode_id: str) -> None:
        try:
            asked_for = marker.read_text().strip()
        except FileNotFoundError:
            return
        if asked_for == episode_id:
            marker.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    return committed
