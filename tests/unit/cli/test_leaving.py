"""Ctrl-C, once and twice, with a ground that holds as it is told."""

import asyncio
import gc
from typing import Any, cast

import pytest

from ops.cli.batch import Batch
from ops.cli.leaving import Interrupts, leave
from ops.cli.output import Output
from ops.cli.progress import Lines
from schemas.episode import EpisodeSpec, PolicySpec
from schemas.status import EpisodeStatus, Phase
from schemas.task import Limits
from tiltyard.errors import BadInput
from workers.ground import Ground

SPEC = EpisodeSpec(
    episode_id="e-1", task_id="w/f/1", task_digest="", world="w", policy=PolicySpec(target="p"), limits=Limits()
)


class Held:
    """A ground whose one episode stays in a phase and takes every message."""

    def __init__(self, phase: Phase, question: str = "", refuses: bool = False) -> None:
        self.phase, self.question, self.refuses = phase, question, refuses
        self.paused, self.pausing = False, asyncio.Event()

    async def submit(self, specs: object) -> None:
        """It runs already."""

    async def pause(self, episode_id: str) -> None:
        if self.refuses:
            raise BadInput("the episode is paused already")
        self.paused = True
        self.pausing.set()

    async def resume(self, episode_id: str) -> None:
        self.paused = False

    async def status(self, episode_id: str) -> EpisodeStatus:
        return EpisodeStatus(episode_id=episode_id, phase=self.phase, paused=self.paused, question=self.question)


def batch(held: Held) -> Batch:
    out = Output(as_json=False)
    return Batch(cast(Ground, held), out, Lines(out, 1))


async def test_an_episode_that_asks_holds(capsys: pytest.CaptureFixture[str]) -> None:
    await leave(batch(Held("question", "may I?")), [SPEC], Interrupts())
    said = capsys.readouterr().err
    assert "it asks: may I?" in said
    assert "episodes answer e-1 TEXT" in said
    assert "episodes resume e-1" in said


async def test_an_episode_that_waits_holds(capsys: pytest.CaptureFixture[str]) -> None:
    await leave(batch(Held("waiting")), [SPEC], Interrupts())
    assert "episodes resume e-1" in capsys.readouterr().err


async def test_an_episode_that_has_ended_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    await leave(batch(Held("done", refuses=True)), [SPEC], Interrupts())
    assert "episodes show e-1" in capsys.readouterr().err


async def test_twice_lets_all_go_on_and_leaves_no_complaint(capsys: pytest.CaptureFixture[str]) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    held, interrupts = Held("turns"), Interrupts()
    leaving = asyncio.create_task(leave(batch(held), [SPEC], interrupts))
    await held.pausing.wait()
    interrupts.hit()
    interrupts.hit()
    await leaving
    assert await held.status("e-1") == EpisodeStatus(episode_id="e-1", phase="turns")
    assert "episodes watch e-1" in capsys.readouterr().err
    del leaving
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []
