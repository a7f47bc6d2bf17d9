"""Episodes a second on a whole stack with Docker's sandboxes, and where their time goes."""

from infra.local.stack import Say
from ops.bench.figures import Figure, Target
from ops.bench.stack import stack
from ops.bench.tasks import CALLS, with_commands
from ops.bench.throughput import EPISODES, PARTS, Run, take_turns, told

AT_LEAST = Target(least=8, judged_from=EPISODES)


async def measure(most: int, say: Say) -> list[Figure]:
    """The episodes of the subject ``throughput``, in sandboxes of Docker's and of bubblewrap's in turn."""
    episodes = max(1, min(EPISODES, most) // PARTS)
    async with stack(say) as ours:
        if why_not := await ours.unavailable("docker"):
            return [Figure(what="episodes in Docker's sandboxes", unit="/s", skipped=why_not)]
        runs = {
            f"Docker, reset, and {CALLS} commands": Run(with_commands("reset"), "docker"),
            f"Docker, fresh, and {CALLS} commands": Run(with_commands(), "docker"),
        }
        if not await ours.unavailable("bubblewrap"):
            runs[f"bubblewrap and {CALLS} commands"] = Run(with_commands())
        await take_turns(ours, runs.values(), episodes, say)
    return [figure for number, (what, run) in enumerate(runs.items()) for figure in _told(what, run, number == 0)]


def _told(what: str, run: Run, judged: bool) -> list[Figure]:
    return told(what, run, AT_LEAST if judged else None)
