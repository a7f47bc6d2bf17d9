"""The program: ``python3 -I -S supervisor.py CONTROL JOURNAL [PROC_FD]``."""

# ruff: noqa: SIM105 - contextlib would have to be loaded
from __future__ import annotations

import os
import sys

from infra.sandboxes.supervisor.receipts import JOURNAL
from infra.sandboxes.supervisor.requests import Supervisor


def keep_descriptors_to_ourselves() -> None:
    """No program here inherits what the supervisor was started with, and 0, 1 and 2 are something."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                pass  # the one that listed the folder


def main(control: str, journal: str, proc: str | None = None) -> None:
    """Be the supervisor until the other side of ``control`` hangs up, or with a door for good."""
    keep_descriptors_to_ourselves()
    Supervisor(
        int(control) if control.isdigit() else control,
        int(journal) if journal.isdigit() else os.open(journal, JOURNAL, 0o600),
        None if proc is None else int(proc),
    ).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
