"""Containers belong to the engine: they outlive a killed host with their commands, and end with the stack."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.local.stack import bring_up, take_down
from infra.sandboxes.docker.engine import Engine
from ops.cli.on_demand import stack_config
from schemas.episode import End, Validity
from tests.contract.sandboxes.docker_engine import containers_below, engine_or_skip, lend_images, mounts_below
from tests.e2e.ground.kills import LONG, PAUSE_S, begun, is_under_way, kill, killed_task, outcome, played
from tests.workflow.arena import until
from workers.bootstrap.ground import open_ground
from workers.ground import Ground
from workers.settings import Settings

pytestmark = pytest.mark.timeout(600)


@dataclass
class Stack:
    """A stack of its own, for it is taken down in the middle of things."""

    settings: Settings
    engine: Engine

    def up(self) -> None:
        state = bring_up(stack_config(self.settings), print, pinned=True)
        self.settings = self.settings.model_copy(update={"temporal_address": state.address})

    def down(self) -> None:
        take_down(stack_config(self.settings).paths, print)

    def containers(self) -> list[str]:
        return containers_below(self.engine, self.settings.home)


@pytest.fixture(scope="module")
def stack(docker_images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("docker-kills").resolve()
    lend_images(docker_images, home / "images")
    with engine_or_skip() as engine:
        made = Stack(Settings.from_environment(home), engine)
        made.up()
        yield made
        made.down()
        assert made.containers() == []
        assert mounts_below(home) == []


@pytest.fixture
async def docker_ground(stack: Stack) -> AsyncIterator[Ground]:
    async with open_ground(stack.settings) as opened:
        yield opened


@pytest.mark.parametrize("victim", ["worker", "sandboxes"])
async def test_a_command_outlives_whoever_asked_for_it(stack: Stack, docker_ground: Ground, victim: str) -> None:
    """SIGKILL in its middle: it ran once, in the same sandbox, and its result reaches the episode."""
    task = killed_task(LONG)
    calm, _ = await played(docker_ground, stack.settings, task, driver="docker")
    result, evidence = await played(docker_ground, stack.settings, task, victim, "docker")
    assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID), result.reason
    assert result.digests.trace == calm.digests.trace
    assert evidence.turns[0].observations is not None
    assert evidence.turns[0].observations[0].content == {"exit_code": 0, "stdout": "line\n", "stderr": ""}
    assert evidence.sandbox is not None
    facts = evidence.sandbox.facts
    assert (facts.incarnation, bool(facts.enforced)) == (1, True)
    assert [(one.started, one.ended) for one in facts.commands] == [(True, True)]


async def test_down_ends_every_container_and_up_goes_on_from_the_last_files(stack: Stack) -> None:
    """The command lasts far longer than a worker is waited for at its end."""
    pause_s = f"30{PAUSE_S}"
    task = killed_task("echo kept > kept.txt; sleep 2.5", f"sleep {pause_s}", "cat kept.txt; ls")
    async with open_ground(stack.settings) as ground:
        spec = await begun(ground, task, "docker")
        await until(lambda: is_under_way(pause_s))
    assert stack.containers()
    await asyncio.to_thread(stack.down)
    assert (stack.containers(), mounts_below(stack.settings.home), is_under_way(pause_s)) == ([], [], False)
    await asyncio.to_thread(stack.up)
    async with open_ground(stack.settings) as ground:
        result, evidence = await outcome(ground, spec)
    assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID), result.reason
    shown = [one for turn in evidence.turns for one in turn.observations or ()]
    assert shown[1].code == "sandbox_lost"
    assert isinstance(shown[2].content, dict)
    assert shown[2].content["stdout"] == "kept\nkept.txt\nnotes.txt\n"


async def test_up_after_everything_was_killed_finds_the_command_under_way(stack: Stack) -> None:
    """As when the machine kills the stack: the engine and what runs in it go on."""
    async with open_ground(stack.settings) as ground:
        spec = await begun(ground, killed_task(LONG), "docker")
        await until(is_under_way)
    kill(stack.settings, "supervisor")
    assert is_under_way()
    await asyncio.to_thread(stack.up)
    async with open_ground(stack.settings) as ground:
        result, evidence = await outcome(ground, spec)
    assert (result.end, result.validity) == (End.SUBMITTED, Validity.VALID), result.reason
    assert evidence.sandbox is not None
    assert evidence.sandbox.facts.incarnation == 1
