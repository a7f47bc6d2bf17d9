"""Episodes that leave a canary and look for those of others, ended at random: the same for each driver."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from infra.local.databases import namespaces
from infra.sandboxes.client import HostClient
from schemas.base import JsonObject, sha256
from schemas.contract import AnswerContract
from schemas.episode import End, EpisodeResult, EpisodeSpec, PolicySpec, workflow_id
from schemas.evidence import Evidence
from schemas.sandbox import DriverName, Isolation, SandboxPlan
from schemas.task import Reference, Step, Task
from schemas.world import TemplateRef
from tests.chaos.kills import Chaos
from tiltyard.trace import unpack
from workers.ground import Ground
from workers.settings import Settings

AT_ONCE = 8
PLACES = "/work /tmp /dev/shm"
CANARY = "canary-of-"
LEFT_S = f"300.{os.getpid()}"
"""What the process sleeps that each episode leaves behind; by its digits it is found from outside."""

TICKET: JsonObject = {"ticket_id": "C-1", "title": "Canary", "report": "Leave a canary."}


def canary_task(number: int, isolation: Isolation) -> Task:
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
        "sandbox": SandboxPlan(files={"notes.txt": "notes\n"}, isolation=isolation),
        "contracts": (AnswerContract(accept=({"done": True},)),),
        "references": (Reference(steps=(*steps, Step.model_validate({"submit": done}))),),
    }
    return Task.model_validate(values)


async def disturbed(
    ground: Ground, chaos: Chaos, driver: DriverName, isolations: Sequence[Isolation], dice: random.Random
) -> list[EpisodeResult]:
    """Outcomes of an episode for each of ``isolations`` while processes are killed; about one in seven is cancelled
    or terminated at some moment."""
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
    for number, isolation in enumerate(isolations):
        task = canary_task(number, isolation)
        spec = await ground.plan(task, PolicySpec(target="reference"), seed=number, sandbox=driver)
        trials.append((spec, dice.choice(("",) * 12 + ("cancel", "terminate")), dice.uniform(0, 2)))
    reign = asyncio.create_task(chaos.reign())
    results = list(await asyncio.gather(*(one(*trial) for trial in trials)))
    reign.cancel()
    with suppress(asyncio.CancelledError):
        await reign
    return results


def assert_none_is_spoilt(results: Sequence[EpisodeResult], planned: int) -> None:
    """Every trial has an outcome (I6), and whatever was killed, no episode is spoilt by it."""
    assert len(results) == planned
    spoilt = Counter(one.reason[:60] for one in results if one.end is End.ENVIRONMENT_ERROR)
    print(f"environment errors: {dict(spoilt)}")
    assert not spoilt
    whole = sum(one.end is End.SUBMITTED and one.score.completion == 1 for one in results)
    assert whole >= planned * 0.6, results[0].reason


async def nothing_held(sandboxes: HostClient, settings: Settings) -> bool:
    held = namespaces(settings.home / "worlds.db")
    return await sandboxes.sandboxes() == () and not held.get("leased") and not held.get("sealed")


async def evidence_of(ground: Ground, results: Sequence[EpisodeResult]) -> dict[int, Evidence]:
    """By the number of the episode; of one that was terminated there may be none."""
    return {
        number: unpack(await ground.objects.get(one.trace)).evidence
        for number, one in enumerate(results)
        if one.trace
    }


def assert_met_nobody(number: int, result: EpisodeResult, evidence: Evidence) -> None:
    """It was shown its own canary at most, and its files hold no other one; its own, if it kept its sandbox."""
    assert strangers(number, evidence) == [], f"episode {number} met another one's canary"
    assert evidence.drain.empty, result
    changes = evidence.sandbox.changes if evidence.sandbox else ()
    left = {(one.path, one.after) for one in changes}
    own = {("canary", sha256(f"{CANARY}{number}\n".encode()))}
    assert left <= own, f"episode {number} has files that it has not written"
    kept_it = evidence.sandbox is not None and evidence.sandbox.facts.incarnation == 1
    assert left == own or result.end is not End.SUBMITTED or not kept_it, f"episode {number} lost its canary"


def strangers(number: int, evidence: Evidence) -> list[str]:
    """What it was shown with another one's canary in it."""
    shown = [str(one.content) for turn in evidence.turns for one in turn.observations or ()]
    return [text for text in shown if CANARY in text.replace(f"{CANARY}{number}\\n", "")]


def folders(settings: Settings) -> list[str]:
    """Of sandboxes that somebody has."""
    return [one.name for one in settings.sandboxes.iterdir() if one.is_dir()]
