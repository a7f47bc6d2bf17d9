"""Pins of rehearsed episodes, and playing them."""

import asyncio
from typing import Any

from schemas.episode import EpisodeResult
from schemas.pin import Pin
from schemas.task import Task
from tiltyard.episode.grading import examine
from tiltyard.policies.catalogue import open_script
from tiltyard.reopen.pin_checks import Held, Stage, check_pin
from tiltyard.reopen.pinning import pin_of
from tiltyard.suite import shipped
from tiltyard.suite.practice import stage
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace, pack, unpack
from tiltyard.worlds.registry import worlds

FIRST = {task.family: task for task in reversed(shipped().match(["*/*/*"])) if not task.needs_sandbox}
LOST = FIRST["replacement/reply-lost"]
HERE = Stage(stage(worlds()), MemorySandboxes())


def outcome(task: Task, policy: Any, name: str = "it") -> tuple[EpisodeResult, Trace]:
    evidence = asyncio.run(rehearse(task, policy, HERE.engine, name=name))
    trace = unpack(pack(Trace(task, HERE.engine.describe(task.world), evidence)))
    return examine(trace.task, trace.evidence, trace.tools), trace


def pinned(task: Task, script: str) -> Pin:
    return pin_of(*outcome(task, open_script(script, task)), script)


def held(pin: Pin, here: Stage = HERE) -> Held:
    return asyncio.run(check_pin(pin, here))
