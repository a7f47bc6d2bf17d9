"""Ctrl-C, once and twice, with a ground that holds as it is told."""

import asyncio
import gc
import os
import signal
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import pytest

from ops.cli.batch import Batch
from ops.cli.leaving import Interrupts, leave, play_until_left
from ops.cli.output import Output
from ops.cli.progress import Lines
from ops.cli.results import show_results
from schemas.episode import End, EpisodeResult, EpisodeSpec, PolicySpec, Validity
from schemas.status import EpisodeStatus, Phase
from schemas.task import Limits, Task
from tiltyard.errors import BadInput, StackFailed
from workers.ground import Ground

SPEC = EpisodeSpec(
    episode_id="e-1", task_id="w/f/1", task_digest="", world="w", policy=PolicySpec(target="p"), limits=Limits()
)

TASK = Task.model_validate(
    {
        "id": "w/f/1",
        "world": "w",
        "instruction": "Look.",
        "contracts": [{"kind": "process", "rules": [{"rule": "require", "call": {"tool": "look"}}]}],
        "references": [{"steps": [{"submit": {}}]}],
    }
)


def ended(episode_id: str) -> EpisodeResult:
    valid = Validity.VALID
    return EpisodeResult(episode_id=episode_id, task="w/f/1", policy="p", seed=0, end=End.SUBMITTED, validity=valid)


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

    async def result(self, episode_id: str) -> EpisodeResult:
        return ended(episode_id)

    async def status(self, episode_id: str) -> EpisodeStatus:
        return EpisodeStatus(episode_id=episode_id, phase=self.phase, paused=self.paused, question=self.question)


def batch(held: Held) -> Batch:
    out = Output(as_json=False)
    return Batch(cast(Ground, held), out, Lines(out, 1))


async def test_an_episode_that_asks_holds() -> None:
    way_back = await leave(batch(Held("question", "may I?")), [SPEC], Interrupts())
    assert way_back[0] == "1 episode paused; to go on:"
    assert "e-1 asks: may I?" in way_back
    assert [one.split()[1:] for one in way_back if "episodes" in one and "e-1" in one.split()[-2:]] == [
        ["episodes", "resume", "e-1"],
        ["episodes", "answer", "e-1", "TEXT"],
    ]


async def test_an_episode_that_waits_holds() -> None:
    way_back = await leave(batch(Held("waiting")), [SPEC], Interrupts())
    assert way_back[-1].endswith("episodes resume e-1")


async def test_an_episode_that_has_ended_meanwhile_has_a_result() -> None:
    left = batch(Held("done", refuses=True))
    assert await leave(left, [SPEC], Interrupts()) == []
    assert left.done([SPEC]) == (ended("e-1"),)


async def test_twice_lets_all_go_on_and_leaves_no_complaint() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    held, interrupts = Held("turns"), Interrupts()
    leaving = asyncio.create_task(leave(batch(held), [SPEC], interrupts))
    await held.pausing.wait()
    interrupts.hit()
    interrupts.hit()
    way_back = await leaving
    assert await held.status("e-1") == EpisodeStatus(episode_id="e-1", phase="turns")
    assert way_back[0] == "1 episode left running; to follow:"
    assert way_back[1].endswith("episodes watch e-1")
    del leaving
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []


class OneEnds(Held):
    """Its first episode ends at once; Ctrl-C comes when the second one is under way."""

    def __init__(self) -> None:
        super().__init__("paused")
        self.interrupts = True

    async def result(self, episode_id: str) -> EpisodeResult:
        if episode_id == "e-1":
            return ended(episode_id)
        if self.interrupts:
            os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        raise AssertionError("nothing ends it")


class TakenDown(OneEnds):
    """The stack ends when the second one is under way."""

    async def result(self, episode_id: str) -> EpisodeResult:
        if episode_id == "e-1":
            return ended(episode_id)
        raise StackFailed("it was taken down")


@pytest.mark.parametrize(("ground", "error"), [(OneEnds, KeyboardInterrupt), (TakenDown, StackFailed)])
async def test_what_was_done_the_way_back_and_what_was_not_started_are_told(
    ground: type[OneEnds], error: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    specs = [SPEC.model_copy(update={"episode_id": f"e-{number}"}) for number in range(1, 5)]
    out = Output(as_json=False)

    def again(left: Sequence[EpisodeSpec]) -> list[str]:
        return ["run again " + " ".join(one.episode_id for one in left)]

    tell = partial(show_results, out, tasks=[TASK])
    with pytest.raises(error):
        await play_until_left(batch(ground()), specs, 1, tell, again)
    said = capsys.readouterr()
    assert "episode e-1" in said.out
    assert "1 of 4 trials ended:" in said.err
    assert all(f"{spec.episode_id}" in said.err for spec in specs), "nothing is silently dropped"
    if error is KeyboardInterrupt:
        assert "1 episode paused; to go on:" in said.err
        assert "2 of 4 trials were not started; to run them:\nrun again e-3 e-4\n" in said.err
