"""Memory of the worker over many episodes: it must not grow with them."""

import statistics
from collections.abc import Sequence

from infra.local.stack import Say
from ops.bench.figures import Figure, Target
from ops.bench.stack import stack
from ops.bench.tasks import with_commands, without_sandbox

EPISODES = 2_000
WINDOWS = 20
FLAT = Target(most=1.1, judged_from=EPISODES)

MIB = 2**20


async def measure(most: int, say: Say) -> list[Figure]:
    """What the worker's process has in memory after each episode, as medians of twenty windows.

    The first tenth is its start; the largest later window is held against the one after that.
    """
    async with stack(say) as ours:
        worker, resident = ours.process("worker"), list[float]()
        why_not = await ours.unavailable("bubblewrap")
        task = without_sandbox() if why_not else with_commands()
        await ours.episodes(task, min(EPISODES, most), lambda: resident.append(worker.memory_info().rss / MIB))
    return flatness(resident, "without a sandbox" if why_not else "with a sandbox")


def flatness(resident: Sequence[float], kind: str) -> list[Figure]:
    """The figures of a series of sizes in MiB, one for each episode."""
    windows = cut(resident, WINDOWS)
    start = min(len(windows) // 10, len(windows) - 1)
    series = " ".join(f"{statistics.median(window):.0f}" for window in windows)
    base = Figure.of(
        f"worker's memory after {sum(map(len, windows[:start]))} episodes {kind}",
        windows[start],
        scale=1,
        unit="MiB",
    )
    largest = max(windows[start:], key=statistics.median)
    whole = Figure.of(
        f"largest until {len(resident)} episodes",
        largest,
        scale=1,
        unit="MiB",
        note=series,
        episodes=len(resident),
    )
    return [base, whole.over(base, FLAT)]


def cut(values: Sequence[float], parts: int) -> list[Sequence[float]]:
    """The values in so many parts of equal length, or in parts of one."""
    length = max(1, -(-len(values) // parts))
    return [values[first : first + length] for first in range(0, len(values), length)]
