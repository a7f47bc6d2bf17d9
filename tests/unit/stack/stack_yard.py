"""A stack of fake processes under the real supervisor."""

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

from infra.local.config import Patience, StackConfig
from infra.local.processes import ProcessId
from infra.local.stack import bring_up, look, take_down
from infra.local.state import StackState

FAKE = Path(__file__).with_name("fake_process.py")
QUICK = Patience(start_s=20, stop_s=1, quick_s=0.2, quick_deaths=3, backoff_s=(0.02, 0.05), idle_s=900, keep_s=0.05)


@dataclass
class Yard:
    """One stack under test, and what it said to its user."""

    config: StackConfig
    steering: Path
    said: list[str] = field(default_factory=list)

    def up(self, *, pinned: bool = False) -> StackState:
        return bring_up(self.config, self.said.append, pinned=pinned)

    def down(self) -> bool:
        return take_down(self.config.paths, self.said.append)

    def state(self) -> StackState:
        state = look(self.config.paths)
        assert state is not None
        return state

    def process(self, name: str) -> ProcessId | None:
        return next(one.process for one in self.state().processes if one.name == name)

    def kill(self, name: str) -> ProcessId:
        """SIGKILL a process of the stack."""
        process = self.state().supervisor if name == "supervisor" else self.process(name)
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        return process

    def change(self, **changes: object) -> None:
        self.config = StackConfig.model_validate({**self.config.model_dump(), **changes})

    def everything(self) -> list[ProcessId]:
        state = self.state()
        return [state.supervisor, *(one.process for one in state.processes if one.process)]
