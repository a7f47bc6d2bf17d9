"""What this machine can tell of what is done in a sandbox, found by asking its kernel as a supervisor does.

In a process of its own: a kernel that has once been asked to tell of system calls does so for good.
"""

import json
import subprocess
import sys
from functools import cache

from infra.sandboxes.joined import joined
from infra.sandboxes.passing import may_pass
from schemas.sandbox import Sight
from tiltyard.errors import EnvironmentFailed

TRIAL_S = 20
"""How long asking may take, in seconds, on a machine that does much else."""

ASK = """
import json, os, sys
names = {"__name__": "asked"}
exec(sys.stdin.read(), names)
kernel, calls = names["Kernel"](), names["INOTIFY_CALLS"].get(os.uname().machine)
kernel.prctl(names["PR_SET_NO_NEW_PRIVS"], 1)
watches = calls is not None and kernel.call(calls[0], os.O_CLOEXEC) >= 0
print(json.dumps([names["listen"](kernel) >= 0, watches]))
"""


def told_here() -> tuple[Sight, ...]:
    """What the kernel tells whoever asks. Raises ``EnvironmentFailed`` when an error that passes leaves it open."""
    return asked((sys.executable, "-I", "-S", "-c", ASK))


@cache  # an answer is kept, and what was raised is not
def asked(command: tuple[str, ...], limit_s: float = TRIAL_S) -> tuple[Sight, ...]:
    """What a program finds that has so many seconds; nothing where it cannot look."""
    try:
        said = subprocess.run(command, input=joined(), capture_output=True, text=True, timeout=limit_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        if isinstance(error, OSError) and not may_pass(error):
            return ()
        raise EnvironmentFailed(f"what this kernel tells could not be found out: {error}") from error
    if said.returncode < 0:
        raise EnvironmentFailed(f"what this kernel tells could not be found out: signal {-said.returncode}")
    try:
        listens, watches = json.loads(said.stdout)
    except ValueError:
        return ()
    calls: tuple[Sight, ...] = ("every_exec", "connections") if listens else ()
    return (*calls, "marked_reads") if watches else calls
