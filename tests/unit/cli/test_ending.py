"""How a command's process ends: with its exit code and all that it said, whatever threads it still has."""

import subprocess
import sys

import pytest

ENDS = """
import sys, threading, time
from ops.cli.main import leave
{talked}
waits = threading.Thread(target=time.sleep, args=(3600,))
waits.daemon = {daemon}
waits.start()
print("said")
leave(3)
"""


@pytest.mark.parametrize(
    ("talked", "daemon"), [("import temporalio", False), ("", True)], ids=["has talked to Temporal", "has not"]
)
def test_a_command_ends_with_its_code_and_what_it_said(talked: str, daemon: bool) -> None:
    """A thread of Temporal's SDK that waits for a server that is gone would keep it for ever, like this one."""
    program = ENDS.format(talked=talked, daemon=daemon)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, "said\n")
