"""What this machine can tell of what is done in a sandbox, found by asking its kernel as a supervisor does.

In a process of its own: a kernel that has once been asked to tell of system calls does so for good.
"""

import json
import subprocess
import sys
from functools import cache

from infra.sandboxes.joined import joined
from schemas.sandbox import Sight

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


@cache
def told_here() -> tuple[Sight, ...]:
    """What the kernel tells whoever asks; nothing where that cannot be found out. It is asked once."""
    command = [sys.executable, "-I", "-S", "-c", ASK]
    try:
        asked = subprocess.run(command, input=joined(), capture_output=True, text=True, timeout=TRIAL_S)
        listens, watches = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return ()
    calls: tuple[Sight, ...] = ("every_exec", "connections") if listens else ()
    return (*calls, "marked_reads") if watches else calls
