"""A sandbox in a container that was used and reset keeps all the promises of one that is new."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from schemas.sandbox import SandboxOrder
from tests.contract.sandboxes.reset_yard import reset_yard
from tiltyard.errors import TiltyardError
from tiltyard.testing.sandbox_bench import Box, SandboxBench
from tiltyard.testing.sandbox_kit import PROCESS_CHECKS, SANDBOX_CHECKS, SandboxCheck


@dataclass(frozen=True)
class UsedBench(SandboxBench):
    """All its sandboxes may be made of used containers. ``served`` has how many each of them had been before."""

    served: list[int] = field(default_factory=list)

    def order(self, **fields: Any) -> SandboxOrder:
        return super().order(**{"isolation": "reset", **fields})

    @asynccontextmanager
    async def sandbox(self, **fields: Any) -> AsyncIterator[Box]:
        """It is drained at its end: only then is its container used again."""
        async with super().sandbox(**fields) as box:
            yield box
            with suppress(TiltyardError):  # what is lost cannot be
                await box.close()
                self.served.append((await self.port.facts(box.ref)).served_before)


@pytest.fixture(scope="module")
async def bench(docker_images: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[UsedBench]:
    async with reset_yard(tmp_path_factory.mktemp("again"), docker_images) as yard:
        yield (bench := UsedBench(yard.host, "docker"))
    assert any(bench.served), "none was used again"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("check", [*SANDBOX_CHECKS, *PROCESS_CHECKS], ids=lambda check: check.__name__)
async def test_docker_again(check: SandboxCheck, bench: UsedBench) -> None:
    await check(bench)
    assert await bench.port.sandboxes() == ()
