"""Means of trials, each over what counts together: see ``tiltyard.suite.standing``."""

from collections.abc import Iterator, Mapping, Sequence

from schemas.episode import EpisodeResult
from schemas.task import Task
from tiltyard.suite.standing import Standing, standing

JUDGED = (Standing.COUNTED, Standing.IDLE_PASSES)
"""Standings that have a mean, each its own."""


def means(results: Sequence[EpisodeResult], tasks: Sequence[Task]) -> dict[Standing, tuple[int, float]]:
    """Trials and mean score by standing, where there are any; ``results`` are of ``tasks``."""
    of_task = {task.id: standing(task) for task in tasks}
    groups: dict[Standing, list[float]] = {}
    for result in results:
        groups.setdefault(of_task[result.task], []).append(result.score.total)
    return {name: (len(group), sum(group) / len(group)) for name, group in groups.items()}


def counted(number: int, one: str) -> str:
    """So many of something, in words: ``1 trial``, ``2 trials``."""
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def told(found: Mapping[Standing, tuple[int, float]]) -> Iterator[str]:
    """The means in a line each."""
    if Standing.COUNTED in found:
        trials, mean = found[Standing.COUNTED]
        yield f"mean score of {counted(trials, 'trial')}: {mean:.3f}"
    if Standing.IDLE_PASSES in found:
        trials, mean = found[Standing.IDLE_PASSES]
        why = "doing nothing passes such tasks at their source"
        yield f"counted apart ({why}): mean score of {counted(trials, 'trial')}: {mean:.3f}"
    if Standing.UNSCORABLE in found:
        yield f"not counted: {counted(found[Standing.UNSCORABLE][0], 'trial')} of tasks that cannot be judged"
