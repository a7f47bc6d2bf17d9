"""What every implementation of the sandbox port must do, on every driver: the conformance kit.

Each check is given a ``SandboxBench``. It raises ``AssertionError``, or lets an error of the port through that was
not due. ``SANDBOX_CHECKS`` are written in the words of ``tiltyard.testing.little_shell``, so the fake passes them
too; ``PROCESS_CHECKS`` need real processes, and ``ISOLATED_CHECKS`` that they are isolated.

A check leaves no sandbox behind, and looks at none but its own: one port may serve many checks, also at once. The
check of slots says nothing unless the port has few of them and it runs alone.
"""

from collections.abc import Awaitable, Callable

from tiltyard.testing.sandbox_audit_checks import AUDIT_CHECKS, PROCESS_AUDIT_CHECKS
from tiltyard.testing.sandbox_bench import SandboxBench
from tiltyard.testing.sandbox_command_checks import COMMAND_CHECKS
from tiltyard.testing.sandbox_ending_checks import ENDING_CHECKS
from tiltyard.testing.sandbox_file_checks import FILE_CHECKS
from tiltyard.testing.sandbox_process_checks import PROCESS_CHECKS

__all__ = ["ISOLATED_CHECKS", "PROCESS_CHECKS", "SANDBOX_CHECKS", "SandboxBench", "SandboxCheck"]

SandboxCheck = Callable[[SandboxBench], Awaitable[None]]

SANDBOX_CHECKS: tuple[SandboxCheck, ...] = (*COMMAND_CHECKS, *FILE_CHECKS, *ENDING_CHECKS, *AUDIT_CHECKS)

ISOLATED_CHECKS: tuple[SandboxCheck, ...] = PROCESS_AUDIT_CHECKS
"""Of sandboxes that isolate: from the machine's network, and from the supervisor."""
