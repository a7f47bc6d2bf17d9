"""Episodes with commands under random kills, cancels and terminates: nothing is left, nobody meets another."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from infra.local.databases import namespaces
from infra.sandboxes.boxed import mark_of
from infra.sandboxes.cgroups import candidates
from infra.sandboxes.client import HostClient
from infra.sandboxes.records import folder_of
from schemas.base import JsonObject, sha256
from schemas.contract import AnswerContract
from schemas.episode import End, EpisodeResult, EpisodeSpec, PolicySpec, workflow_id
from schemas.sandbox import SandboxPlan, SandboxRef
from schemas.task import Reference, Step, Task
from schemas.world import TemplateRef
from tests.chaos.kills import Chaos, stack
from tests.workflow.arena import until
from tiltyard.trace import unpack
from workers.bootstrap.ground import open_ground
from workers.ground import Ground
from workers.settings import Settings

AT_ONCE = 8
PLACES = "/work /tmp /dev/shm"
CANARY = "canary-of-"
LEFT_S = f"300.{os.getpid()}"
"""What the process sleeps that each episode leaves behind; by its digits it is found from outside."""

INCARNATIONS = range(1, 40)
"""More than an episode has, however often its host is killed."""

TICKET: JsonObject = {"ticket_id": "C-1", "title": "Canary", "report": "Leave a canary."}


def canary_task(number: int) -> Task:
    """Looks for what others have left, leaves a canary in every writable place, and a process behind."""
    commands = (
        f"ls -a {PLACES}; cat /work/canary /tmp/canary /dev/shm/canary; ps -e 2>/dev/null; true",
        f"echo {CANARY}{number} | tee /work/canary /tmp/canary /dev/shm/canary",
        f"sleep 0.3; sleep {LEFT_S} & echo left",
        "cat /work/canary; true",
    )
    done: dict[str, object] = {"done": True}
    steps = tuple(Step(tool="shell", arguments={"command": command}) for command in commands)
    values = {
        "id": f"code-repair/canary/{number}",
        "world": "code-repair",
        "instruction": "Leave a canary.",
        "template": TemplateRef(params={"tickets": [TICKET]}),
        "sandbox": SandboxPlan(files={"notes.txt": "notes\n"}),
        "contracts": (AnswerContract(accept=({"done": True},)),),
        "references": (Reference(steps=(*steps, Step.model_validate({"submit": done}))),),
    }
    return Task.model_validate(values)


async def wreak(home: Path, monkeypatch: pytest.MonkeyPatch, episodes: int, seed: int) -> None:
    dice, mounts = random.Random(seed), mounted()
    with stack(home, monkeypatch) as (settings, config):
        async with open_ground(settings) as ground, HostClient(settings.sandboxes_socket) as sandboxes:
            offer = await sandboxes.offer("bubblewrap")
            if not offer.available:
                pytest.skip(f"{offer.problem}: {offer.fix}")
            chaos = Chaos(config, dice, (0.2, 4))
            reign = asyncio.create_task(chaos.reign())
            results = await disturbed(ground, episodes, random.Random(seed + 1))
            reign.cancel()
            with suppress(asyncio.CancelledError):
                await reign
            ends = {end.value: sum(one.end is end for one in results) for end in End}
            print(f"{episodes} episodes, seed {seed}, killed {dict(chaos.kills)}, ended {ends}")
            assert len(results) == episodes, "every trial has an outcome (I6)"
            spoilt = Counter(one.reason[:60] for one in results if one.end is End.ENVIRONMENT_ERROR)
            print(f"environment errors: {dict(spoilt)}")
            assert not spoilt, "whatever was killed, no episode is spoilt by it"
            whole = sum(one.end is End.SUBMITTED and one.score.completion == 1 for one in results)
            assert whole >= episodes * 0.6, results[0].reason
            await until(lambda: _nothing_held(sandboxes, settings), 60)
            assert processes(settings, results) == [], "no process outlives its episode"
            assert folders(settings) == []
            assert mounted() == mounts
            assert groups(chaos.hosts) == [], "no control group of any host is left"
            for number, result in enumerate(results):
                await assert_met_nobody(ground, number, result)


async def disturbed(ground: Ground, episodes: int, dice: random.Random) -> list[EpisodeResult]:
    """Outcomes of all; about one in seven is cancelled or terminated at some moment."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(spec: EpisodeSpec, end: str, after_s: float) -> EpisodeResult:
        async with gate:
            await ground.submit([spec])
            if end:
                await asyncio.sleep(after_s)
                handle = ground.client.get_workflow_handle(workflow_id(spec.episode_id))
                with suppress(Exception):  # it has ended, or the server is being killed
                    await (handle.cancel() if end == "cancel" else handle.terminate())
            return await ground.result(spec.episode_id)

    trials = []
    for number in range(episodes):
        spec = await ground.plan(canary_task(number), PolicySpec(target="reference"), seed=number)
        trials.append((spec, dice.choice(("",) * 12 + ("cancel", "terminate")), dice.uniform(0, 2)))
    return list(await asyncio.gather(*(one(*trial) for trial in trials)))


async def _nothing_held(sandboxes: HostClient, settings: Settings) -> bool:
    held = namespaces(settings.home / "worlds.db")
    return await sandboxes.sandboxes() == () and not held.get("leased") and not held.get("sealed")


async def assert_met_nobody(ground: Ground, number: int, result: EpisodeResult) -> None:
    """It was shown its own canary at most, and its files hold no other one; its own, if it kept its sandbox."""
    if not result.trace:
        return
    evidence = unpack(await ground.objects.get(result.trace)).evidence
    shown = [str(one.content) for turn in evidence.turns for one in turn.observations or ()]
    strangers = [text for text in shown if CANARY in text.replace(f"{CANARY}{number}\\n", "")]
    assert strangers == [], f"episode {number} met another one's canary"
    assert evidence.drain.empty, result
    changes = evidence.sandbox.changes if evidence.sandbox else ()
    left = {(one.path, one.after) for one in changes}
    own = {("canary", sha256(f"{CANARY}{number}\n".encode()))}
    assert left <= own, f"episode {number} has files that it has not written"
    kept_it = evidence.sandbox is not None and evidence.sandbox.facts.incarnation == 1
    assert left == own or result.end is not End.SUBMITTED or not kept_it, f"episode {number} lost its canary"


def mounted() -> Sequence[str]:
    return sorted(line.split(" - ")[1] for line in Path("/proc/self/mountinfo").read_text().splitlines())


def groups(hosts: Collection[int]) -> list[str]:
    """Control groups that one of these hosts has made."""
    cgroup, mountinfo = (Path(f"/proc/self/{name}").read_text() for name in ("cgroup", "mountinfo"))
    found = {group for place in candidates(cgroup, mountinfo) for group in place.folder.glob("tiltyard.*")}
    return [group.name for group in found if int(group.name.split(".")[1]) in hosts]


def folders(settings: Settings) -> list[str]:
    return [one.name for one in settings.sandboxes.iterdir() if one.is_dir()]


def processes(settings: Settings, results: Collection[EpisodeResult]) -> list[list[str]]:
    """Command lines of what runs for these episodes: bwrap by its name, and what their commands have left."""
    marks = {
        mark_of(
            folder_of(settings.sandboxes, SandboxRef(driver="bubblewrap", name=one.episode_id, incarnation=number))
        )
        for one in results
        for number in INCARNATIONS
    }
    lines = [one.info["cmdline"] or [""] for one in psutil.process_iter(["cmdline"])]
    return [line for line in lines if line[0] in marks or LEFT_S in line]


@pytest.mark.timeout(600)
async def test_episodes_with_commands_under_kills_cancels_and_terminates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await wreak(tmp_path / "home", monkeypatch, 20, seed=1)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2, 4))
async def test_long_chaos_with_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    await wreak(tmp_path / "home", monkeypatch, 300, seed)
