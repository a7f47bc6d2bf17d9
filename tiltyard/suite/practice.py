"""What only playing a task can show: doing nothing fails it, and its references solve it."""

import asyncio
from collections.abc import Iterator, Mapping

from schemas.episode import EpisodeResult
from schemas.task import Task
from tiltyard.episode.grading import examine
from tiltyard.errors import BadInput, BadTask, TiltyardError
from tiltyard.policies.catalogue import open_script
from tiltyard.suite.explain import joined
from tiltyard.suite.standing import NO_CALL, why_unscorable
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.kit import WorldKind

IDLE = "do_nothing"
"""The shipped script that gives up at once."""


def stage(worlds: Mapping[str, WorldKind]) -> Engine:
    """An engine of these worlds in memory, to play tasks on."""
    return Engine(worlds, MemoryWorlds())


def practise(task: Task, engine: Engine) -> tuple[BadTask, ...]:
    """Play a task in this process; what is wrong with it, and nothing when it is sound.

    Doing nothing must not complete it, ``idle_passes`` must say what the grader finds, and every reference must
    complete it and hold its process rules, unless no trial of the task can be judged. References that need a
    sandbox are not played: there is none here. Not to be called from a running event loop.
    """
    unplayed = task.needs_sandbox or why_unscorable(task)
    try:
        return (*_idle(task, engine), *(() if unplayed else _references(task, engine)))
    except TiltyardError as error:
        fix = error.fix if isinstance(error, BadInput) else "correct what it names"
        return (BadTask(f"cannot be played: {error}", field=task.id, fix=fix),)


def _played(task: Task, script: str, engine: Engine) -> EpisodeResult:
    evidence = asyncio.run(rehearse(task, open_script(script, task), engine, name=script))
    return examine(task, evidence, engine.describe(task.world))


def _idle(task: Task, engine: Engine) -> Iterator[BadTask]:
    result = _played(task, IDLE, engine)
    if result.score.completion:
        yield BadTask("doing nothing completes the task", field=joined(task.id, "contracts"), fix="expect more")
    for index, (contract, found) in enumerate(zip(task.contracts, result.contracts, strict=True)):
        if contract.idle_passes != found.passed:
            yield BadTask(
                f"doing nothing {'passes' if found.passed else 'fails'} the contract {found.name}",
                field=joined(task.id, f"contracts.{index}.idle_passes"),
                fix=f"set it to {str(found.passed).lower()}",
            )


def _references(task: Task, engine: Engine) -> Iterator[BadTask]:
    for index, reference in enumerate(task.references):
        result = _played(task, f"reference:{reference.name}", engine)
        failed = [f"    {one.name}: {why}" for one in result.contracts if not one.passed for why in one.why]
        if failed:
            why = "\n".join(("the reference does not complete the task:", *failed))
            fix = "correct the reference, or what the contracts expect"
        elif not result.counts.tool_calls and not task.metadata.get(NO_CALL):
            why = "the reference calls no tool, so its own process is 0"
            fix = "have it look up what it submits"
        elif task.process and result.score.process < 1:
            why = "the reference breaks a process rule of its own task"
            fix = "have it keep its rules, or correct the rule"
        else:
            continue
        yield BadTask(why, field=joined(task.id, f"references.{index}"), fix=fix)
