"""Containers that gVisor runs: each has a kernel of its own, so that a fault in the machine's is no way out of it.

What differs from containers that share the machine's kernel:

- Nothing that the host mounts after the start is seen in it. So its places are mounted before, in the sizes of the
  one sandbox that it will be: it is used once, and none waits.
- Its processes are none of the machine's. gVisor is asked for them, by the very program that runs the container.
- The machine's control groups hold gVisor, with all that is in it. Who is killed for want of memory, or has no room
  for another process, is the sandbox, and not one of its commands.
- Its system calls are gVisor's own, so that no profile is laid over them: what Debian's version makes of one breaks
  programs, for every refusal becomes the same error.
- There is no listener for programs that are started: the supervisor looks at who is there instead.
"""

import json
import logging
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.sandboxes.docker.member import Member
from schemas.sandbox import Enforced, Sight

log = logging.getLogger(__name__)

PREFIX = "runsc"
"""Runtimes of this name, and of names that begin with it, are gVisor."""

ARGUMENT = "--host-uds=create"
"""What the engine must start gVisor with: the supervisor's door is a socket that it makes."""

FIX = f'give the runtime `"runtimeArgs": ["{ARGUMENT}"]` in /etc/docker/daemon.json'

ENFORCED_BY_GVISOR: tuple[Enforced, ...] = ("cpu", "memory", "disk", "file_count", "output", "network", "files")
SEES_IN_GVISOR: tuple[Sight, ...] = ("marked_reads",)

ASK_S = 10.0
"""How long gVisor may take to tell its processes, in seconds."""

TASKS, TASKS_EACH = 256, 4
"""Of the machine's, so many may be gVisor's own, and so many more for each process in it."""


def is_gvisor(runtime: str) -> bool:
    return runtime.startswith(PREFIX)


def is_set_up(runtime: Mapping[str, Any]) -> bool:
    """Whether the engine, which tells this of a runtime, starts gVisor as it must."""
    return ARGUMENT in (runtime.get("runtimeArgs") or ())


def tasks_of(processes: int) -> int:
    """How many of the machine's gVisor may have where so many processes may be in it."""
    return TASKS + TASKS_EACH * processes


def guests(member: Member) -> tuple[int, ...]:
    """All that live in its container, by their numbers in it; none where it has ended. Where gVisor does not tell
    them, gVisor's own, which are several: nobody is taken to be alone then."""
    if member.first is None or not member.lives:
        return ()
    proc = Path(f"/proc/{member.first.pid}")
    try:
        *words, container, _ = (proc / "cmdline").read_text().split("\0")
        asked = [str(proc / "exe"), *(word for word in words if word.startswith("--root=")), "ps", "--format=json"]
        done = subprocess.run([*asked, container], capture_output=True, timeout=ASK_S, check=True)
        return tuple(map(int, json.loads(done.stdout)))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError) as error:
        log.warning("gVisor does not tell the processes of %s: %s", member.name, error)
        return member.processes
