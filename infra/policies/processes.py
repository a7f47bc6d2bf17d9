"""Ends a policy's processes, all of them.

The guardian (``tiltyard.policies.guardian``) ends what descends from it. A policy may kill its guardian; so every
process of a policy carries a random mark in its environment, and whatever carries it is ended too.
"""

import logging
import os
import signal
import subprocess
from contextlib import suppress
from itertools import chain

import psutil

from tiltyard.policies.guardian import GRACE_S
from tiltyard.ports import Ended

__all__ = ["MARK", "end", "marked"]

MARK = "TILTYARD_POLICY_OF"
"""The variable whose value tells a policy's processes; the value is random and means nothing else."""

_ROUNDS = 20

log = logging.getLogger(__name__)


def end(guardian: "subprocess.Popen[bytes]", mark: str) -> Ended:
    """End the guardian and every process of its policy: TERM, ``GRACE_S``, KILL.

    Blocks for about ``GRACE_S`` at most, longer only for a policy that forks faster than it can be killed.
    """
    found = _family(guardian, mark) - _policy(guardian)
    killed: set[psutil.Process] = set()
    _signal_group(guardian, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        guardian.wait(GRACE_S * 2)
    for _ in range(_ROUNDS):
        _signal_group(guardian, signal.SIGKILL)
        left = _family(guardian, mark)
        if guardian.poll() is not None and not left:
            break
        killed |= left
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=0.1)
    else:
        log.error("a policy's processes cannot be ended: %s", sorted(process.pid for process in left))
    return Ended(len(found | killed), len(killed))


def marked(mark: str) -> set[psutil.Process]:
    """Every living process that carries the mark."""
    return {process for process in psutil.process_iter() if _carries(process, mark)}


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK) == mark and _alive(process)
    except (psutil.Error, OSError):
        return False


def _alive(process: psutil.Process) -> bool:
    return process.status() != psutil.STATUS_ZOMBIE


def _family(guardian: "subprocess.Popen[bytes]", mark: str) -> set[psutil.Process]:
    """The policy's processes: the guardian's descendants and whoever carries the mark; not the guardian."""
    descendants: list[psutil.Process] = []
    if guardian.poll() is None:
        with suppress(psutil.Error):
            descendants = psutil.Process(guardian.pid).children(recursive=True)
    return {one for one in chain(descendants, marked(mark)) if one.pid != guardian.pid and _still(one)}


def _policy(guardian: "subprocess.Popen[bytes]") -> set[psutil.Process]:
    """The policy's own process, while the guardian waits for its end: the eldest child, for orphans of the policy's
    come to the guardian later."""
    if guardian.poll() is None:
        with suppress(psutil.Error):
            children = psutil.Process(guardian.pid).children()
            return set(sorted(children, key=lambda one: (one.create_time(), one.pid))[:1])
    return set()


def _still(process: psutil.Process) -> bool:
    try:
        return _alive(process)
    except psutil.Error:
        return False


def _signal_group(guardian: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Signal the guardian's group while the guardian is not collected: until then its number is its own."""
    if guardian.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(guardian.pid, number)
