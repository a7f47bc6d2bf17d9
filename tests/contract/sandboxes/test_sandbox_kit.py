"""The fake passes the kit."""

import pytest

from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.sandbox_kit import SANDBOX_CHECKS, SandboxBench, SandboxCheck


@pytest.mark.parametrize("check", SANDBOX_CHECKS, ids=lambda check: check.__name__)
async def test_memory_sandboxes(check: SandboxCheck) -> None:
    await check(SandboxBench(MemorySandboxes(slots=4), "bubblewrap"))
