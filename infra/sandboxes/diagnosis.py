"""Why bubblewrap does not work on this machine, and how to mend it: what an operator reads.

A table of what the kernel says of itself, looked through from the top when bwrap has failed.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

INSTEAD = "or run such tasks with `--sandbox unsafe-local`, which isolates nothing and marks the result"

LINES, CHARACTERS = 2, 300
"""What is kept of bwrap's own words."""


class Cause(NamedTuple):
    """Holds when the file of the kernel has a line with this text (a field of ``/proc/self/status``, or the value
    of a sysctl)."""

    file: str
    line: str
    problem: str
    fix: str


CAUSES = (
    Cause(
        "/proc/sys/user/max_user_namespaces",
        "0",
        "user namespaces are switched off (user.max_user_namespaces = 0)",
        "run `sysctl -w user.max_user_namespaces=15000`",
    ),
    Cause(
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "ordinary users may make no user namespaces (kernel.unprivileged_userns_clone = 0)",
        "run `sysctl -w kernel.unprivileged_userns_clone=1`",
    ),
    Cause(
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor keeps user namespaces from programs that it does not know "
        "(kernel.apparmor_restrict_unprivileged_userns = 1)",
        "run `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or give bwrap an AppArmor profile that "
        "allows userns",
    ),
    Cause(
        "/proc/self/status",
        "Seccomp:\t2",
        "a filter of system calls lies on this process, as in a container",
        "start the container with `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`",
    ),
)


def platform_problem(platform: str = sys.platform) -> tuple[str, str] | None:
    """What is wrong with a system that has no namespaces at all, and what to do."""
    if platform.startswith("linux"):
        return None
    return f"bubblewrap needs Linux, and this is {platform}", f"run Tiltyard in a Linux virtual machine, {INSTEAD}"


def diagnose(said: str, read: Callable[[str], str] | None = None) -> tuple[str, str]:
    """The problem and its fix. ``said`` is what failed, in the words of bwrap or of the system; ``read`` reads a
    file of the kernel, empty where it is not there."""
    read = read or _read
    words = " ".join(said.strip().splitlines()[-LINES:])[-CHARACTERS:] or "bwrap ended and said nothing"
    for cause in CAUSES:
        if cause.line in read(cause.file).splitlines():
            return f"{cause.problem}: {words}", f"{cause.fix}, {INSTEAD}"
    return words, f"mend that, {INSTEAD}"


def _read(file: str) -> str:
    try:
        return Path(file).read_text()
    except OSError:
        return ""
