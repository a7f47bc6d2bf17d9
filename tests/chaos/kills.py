"""A stack whose processes are killed at random."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from infra.local.config import StackConfig
from infra.local.processes import alive
from infra.local.stack import bring_up, look, take_down
from infra.local.state import ProcessState, StackState
from ops.cli.on_demand import stack_config
from tests.workflow.arena import until
from workers.settings import Settings


@dataclass
class Chaos:
    """Kills random processes of a stack until it is told to stop."""

    config: StackConfig
    dice: random.Random
    pause_s: tuple[float, float]
    kills: Counter[str] = field(default_factory=Counter)
    hosts: set[int] = field(default_factory=set)
    """Process ids of the sandbox hosts that there were."""

    async def reign(self) -> None:
        """Kill one or two processes, wait until all are back, let them work for a moment, and again."""
        while True:
            await until(lambda: self._state().phase == "ready" and not self._down())
            await asyncio.sleep(self.dice.uniform(*self.pause_s))
            self.hosts |= {
                one.process.pid for one in self._state().processes if one.name == "sandboxes" and one.process
            }
            for victim in self.dice.sample(self._state().processes, self.dice.choice((1, 1, 2))):
                if victim.process is not None:
                    with suppress(ProcessLookupError):
                        os.kill(victim.process.pid, signal.SIGKILL)
                        self.kills[victim.name] += 1

    def _state(self) -> StackState:
        state = look(self.config.paths)
        assert state is not None, "the supervisor is gone, and nobody killed it"
        return state

    def _down(self) -> list[ProcessState]:
        return [one for one in self._state().processes if one.state != "ready" or not alive(one.process)]


@contextmanager
def stack(home: Path, monkeypatch: pytest.MonkeyPatch, lossy: str = "") -> Iterator[tuple[Settings, StackConfig]]:
    """An embedded stack that is quick to notice a death. ``lossy``, SEED:RATE, loses messages to the world."""
    for name, value in {
        **({"TILTYARD_LOSSY": lossy} if lossy else {}),
        "TILTYARD_HEARTBEAT_S": "2",
        "TILTYARD_SLICE_S": "0.3",
        "TILTYARD_JANITOR_S": "3",
        "TILTYARD_CALL_DEADLINE_S": "120",
    }.items():
        monkeypatch.setenv(name, value)
    settings = Settings.from_environment(home)
    config = stack_config(settings)
    patience = config.patience.model_copy(update={"quick_s": 0, "backoff_s": (0.1,)})
    config = config.model_copy(update={"patience": patience})
    state = bring_up(config, print, pinned=True)
    try:
        yield settings.model_copy(update={"temporal_address": state.address}), config
    finally:
        take_down(config.paths, print)
