"""Replays in this process: an episode, and its decisions again where something has changed."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from schemas.recording import Recording
from schemas.replay import Verdict
from schemas.task import Task
from tiltyard.episode.grading import examine
from tiltyard.ports import Policy
from tiltyard.reopen.recording import recording_of
from tiltyard.reopen.verdicts import Played, verdict_of
from tiltyard.sandbox.tools import SANDBOX_TOOLS
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.kit import Template, Tool, WorldKind, tool
from tiltyard.worlds.registry import worlds

Worlds = Mapping[str, WorldKind]


async def play(
    task: Task,
    policy: Policy | Recording,
    kinds: Worlds | None = None,
    *,
    name: str = "original",
    seed: int = 0,
    engine: Engine | None = None,
    **options: Any,
) -> Played:
    """One episode over this engine, or one of its own of these worlds. ``options`` are those of ``rehearse``."""
    engine = engine or Engine(kinds or worlds(), MemoryWorlds())
    evidence = await rehearse(task, policy, engine, seed=seed, name=name, **options)
    tools = engine.describe(task.world)
    trace = Trace(task, (*tools, *SANDBOX_TOOLS.values()) if task.needs_sandbox else tools, evidence)
    return Played(examine(task, evidence, trace.tools), trace)


async def again(
    original: Played,
    kinds: Worlds | None = None,
    *,
    task: Task | None = None,
    strict: bool = False,
    name: str = "replay",
    **options: Any,
) -> Verdict:
    """Its decisions again, in these worlds and of this task: what a replay finds."""
    recording = recording_of(original.trace)
    seed = original.trace.evidence.spec.seed
    wanted = task or original.trace.task
    other = await play(wanted, recording, kinds, name=name, seed=seed, **options)
    return verdict_of(original, other, recording, strict=strict)


def replayed(of: Task, policy: Policy, kinds: Worlds | None = None, *, seed: int = 0, **options: Any) -> Verdict:
    """An episode, and its replay in these worlds or with what else ``again`` is given."""

    async def both() -> Verdict:
        return await again(await play(of, policy, seed=seed), kinds, **options)

    return asyncio.run(both())


def with_world(name: str, **update: Any) -> dict[str, WorldKind]:
    """The shipped worlds, one of them with something else."""
    return {**worlds(), name: replace(worlds()[name], **update)}


def with_tool(world: str, made: Tool) -> dict[str, WorldKind]:
    """The shipped worlds with another tool in the place of one of that name."""
    return with_world(world, tools=MappingProxyType({**worlds()[world].tools, made.spec.name: made}))


def with_rows(world: str, change: Callable[[dict[str, dict[str, Any]]], None]) -> dict[str, WorldKind]:
    """The shipped worlds with something else in each template of one of them."""
    kind = worlds()[world]

    def template(name: str, params: Any) -> Template:
        made = kind.template(name, params)
        rows = {of: {key: json.loads(body) for key, body in bodies.items()} for of, bodies in made.rows.items()}
        change(rows)
        return Template.of(rows, tuple((job, json.loads(arguments), due) for job, arguments, due in made.jobs))

    return with_world(world, template=template)


def renamed(original: Tool, function: Callable[..., Any]) -> Tool:
    """A tool of the same name and cost, made of another function."""
    function.__name__ = original.spec.name
    return tool(writes=original.spec.writes, cost_s=original.spec.cost_s)(function)
