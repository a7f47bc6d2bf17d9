"""What the tests of outside policies share: a task, a view, and a way to see every process that a policy left."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil

from schemas.contract import BudgetContract, Outcome, StateContract
from schemas.task import Limits, Reference, Step, Task
from schemas.view import Budgets, View
from tiltyard.ports import OpenPolicy

Write = Callable[[str], Path]
Open = Callable[..., Awaitable[OpenPolicy]]

SHORT_S = 1.5
"""Time for one decision of a policy that is not going to decide."""


def task(turn_s: float) -> Task:
    return Task(
        id="shop/reply-lost/1",
        world="shop",
        instruction="Replace the device.",
        limits=Limits(turn_s=turn_s),
        contracts=(StateContract(outcomes=(Outcome(),)), BudgetContract()),
        references=(Reference(steps=(Step(give_up="no"),)),),
    )


def view(turn: int = 0, instruction: str = "Replace the device.") -> View:
    return View(
        instruction=instruction, tools=(), budgets=Budgets(turns=9, tool_calls=9), seed=3, turn=turn, memo={"m": 1}
    )


def left_in(folder: Path) -> list[int]:
    """Process ids of everything alive that works in the folder or calls it home."""
    return [process.pid for process in psutil.process_iter() if _belongs(process, folder)]


def _belongs(process: psutil.Process, folder: Path) -> bool:
    try:
        alive = process.status() != psutil.STATUS_ZOMBIE
        return alive and str(folder) in (process.cwd(), process.environ().get("HOME"))
    except (psutil.Error, OSError):
        return False
