"""What a policy may be, how long its process lives, and how it is ended."""

import asyncio
import json
import shlex
from datetime import timedelta
from pathlib import Path

import pytest

from infra.policies.driver import PolicyDriver
from schemas.decision import Call, Decision
from schemas.episode import EpisodeSpec, PolicySpec
from tests.contract.policies_port.bench import Open, Write, left_in, task, view
from tiltyard.errors import BadPolicy, EnvironmentFailed, PolicyFailed
from tiltyard.policies.catalogue import open_script, shipped
from tiltyard.ports import Ended

FORMS: dict[str, tuple[str, str]] = {
    "a function": ("bot:act", "def act(view): return {'submit': {'turn': view['turn'], 'memo': view['memo']}}"),
    "an async function": (
        "bot:act",
        "import asyncio\nasync def act(view):\n    await asyncio.sleep(0)\n"
        "    return {'submit': {'turn': view['turn'], 'memo': view['memo']}}",
    ),
    "a class": (
        "bot:Bot",
        "class Bot:\n    def act(self, view): return {'submit': {'turn': view['turn'], 'memo': view['memo']}}",
    ),
    "an object": (
        "bot:Bots.one",
        "class Bot:\n    async def act(self, view):\n"
        "        return {'submit': {'turn': view['turn'], 'memo': view['memo']}}\nclass Bots: one = Bot()",
    ),
    "a factory": (
        "bot:make",
        "def make():\n    return lambda view: {'submit': {'turn': view['turn'], 'memo': view['memo']}}",
    ),
    "a dataclass as decision": (
        "bot:act",
        "import dataclasses\n@dataclasses.dataclass\nclass D: submit: dict\n"
        "def act(view): return D({'turn': view['turn'], 'memo': view['memo']})",
    ),
    "a Decision": (
        "bot:act",
        "from schemas.decision import Decision\n"
        "def act(view): return Decision(submit={'turn': view['turn'], 'memo': view['memo']})",
    ),
    "a chatty one": (
        "bot:act",
        "import os, sys\nprint('loading')\ndef act(view):\n    print('{\"give_up\": \"noise\"}')\n"
        "    os.write(1, b'noise\\n'); os.system('echo more noise'); sys.stdin.read()\n"
        "    return {'submit': {'turn': view['turn'], 'memo': view['memo']}}",
    ),
    "a module of a package": ("bot:act", "from own.inner import act"),
}


@pytest.mark.parametrize("form", FORMS)
async def test_a_policy_can_be(form: str, opened: Open, write: Write, folder: Path) -> None:
    target, source = FORMS[form]
    (folder / "own").mkdir()
    (folder / "own" / "inner.py").write_text(FORMS["a function"][1])
    write(source)
    policy = await opened(target)
    for turn in range(3):
        assert await policy.act(view(turn)) == Decision(submit={"turn": turn, "memo": {"m": 1}})


async def test_a_policy_can_be_any_command(opened: Open, folder: Path) -> None:
    script = 'while read -r line; do echo "{\\"calls\\": [{\\"tool\\": \\"find\\"}], \\"tokens\\": ${#line}}"; done'
    policy = await opened(f"exec:sh -c {shlex.quote(script)}")
    shown = view()
    sent = json.dumps({"type": "act", "view": shown.model_dump(mode="json")})
    assert await policy.act(shown) == Decision(calls=(Call(tool="find"),), tokens=len(sent))


async def test_views_and_decisions_of_megabytes_pass_whole(opened: Open, write: Write) -> None:
    write("def act(view): return {'submit': {'text': view['instruction'][::-1]}}")
    text = "žluťoučký 🐎 " * 200_000
    decision = await (await opened("bot:act")).act(view(instruction=text))
    assert decision.submit == {"text": text[::-1]}


async def test_a_shipped_script_runs_in_the_worker(opened: Open, folder: Path) -> None:
    policy = await opened("do_nothing")
    assert (await policy.act(view())).give_up is not None
    assert left_in(folder) == []
    await policy.close()


class _Raises:
    async def act(self, view: object) -> Decision:
        raise KeyError("ticket")


async def test_a_script_that_raises_is_a_failed_policy(folder: Path) -> None:
    driver = PolicyDriver(lambda name, task: _Raises(), shipped)
    policy = await driver.open("ep", _spec("reconcile"), task(60))
    with pytest.raises(PolicyFailed, match="raised KeyError: 'ticket'"):
        await policy.act(view())
    await driver.aclose()


PID = "import os\ndef act(view): return {'submit': {'pid': os.getpid()}}"


async def test_one_process_an_episode_is_kept_between_slices(
    opened: Open, write: Write, driver: PolicyDriver, folder: Path
) -> None:
    write(PID)
    first = await (await opened("bot:act")).act(view())
    assert await (await opened("bot:act")).act(view(1)) == first
    other = await (await opened("bot:act", episode_id="ep-2")).act(view())
    assert other != first
    assert await driver.close("ep-1") == Ended(), "it waits for the next view, as it should"
    assert await driver.close("ep-1") == Ended(), "again: the same"
    assert await (await opened("bot:act", episode_id="ep-2")).act(view()) == other
    assert await (await opened("bot:act")).act(view(2)) != first


async def test_closing_counts_what_it_ended(opened: Open, write: Write, driver: PolicyDriver, folder: Path) -> None:
    write(
        "import subprocess\nsubprocess.Popen(['sleep', '600'])\n"
        "subprocess.Popen(['sleep', '600'], start_new_session=True, env={})\n"
        "def act(view): return {'submit': {}}"
    )
    await (await opened("bot:act")).act(view())
    assert await driver.close("ep-1") == Ended(found=2), "what it has started, and not itself"
    assert await driver.close("ep-1") == Ended(found=2), "again: the same"
    assert left_in(folder) == []


async def test_a_policy_may_end_in_its_own_way(opened: Open, folder: Path) -> None:
    (folder / "agent.sh").write_text(
        "trap 'echo bye > farewell; exit' TERM\nwhile read -r line; do echo '{}'; done\n"
    )
    policy = await opened("exec:sh agent.sh")
    with pytest.raises(PolicyFailed):
        await policy.act(view())
    await policy.close()
    assert (folder / "farewell").read_text() == "bye\n"


async def test_an_idle_process_is_ended_and_started_again_when_asked(write: Write, folder: Path) -> None:
    write(PID)
    driver = PolicyDriver(open_script, shipped, idle=timedelta(seconds=0.2))
    policy = await driver.open("ep", _spec("bot:act", folder), task(60))
    first = await policy.act(view())
    while left_in(folder):
        await asyncio.sleep(0.02)
    assert await policy.act(view(1)) != first
    await driver.aclose()
    assert left_in(folder) == []


async def test_an_act_that_is_cancelled_ends_the_process(
    opened: Open, write: Write, driver: PolicyDriver, folder: Path
) -> None:
    write("import time\ndef act(view):\n    open('asked', 'w').close()\n    time.sleep(600)")
    policy = await opened("bot:act")
    asking = asyncio.create_task(policy.act(view()))
    while not (folder / "asked").exists():
        await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await driver.close("ep-1")
    assert left_in(folder) == []


async def test_two_attempts_at_once_are_asked_one_after_the_other(opened: Open, write: Write) -> None:
    write(FORMS["a function"][1])
    policies = [await opened("bot:act") for _ in range(4)]
    decisions = await asyncio.gather(*(policy.act(view(turn)) for turn, policy in enumerate(policies)))
    assert [decision.submit for decision in decisions] == [{"turn": n, "memo": {"m": 1}} for n in range(4)]


async def test_a_shutdown_waits_for_no_policy(write: Write, folder: Path) -> None:
    write(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "def act(view):\n    open(f'asked-{view[\"turn\"]}', 'w').close()\n    time.sleep(600)"
    )
    driver = PolicyDriver(open_script, shipped)
    policies = [await driver.open(f"ep-{n}", _spec("bot:act", folder), task(600)) for n in range(3)]
    asking = [asyncio.create_task(policy.act(view(n))) for n, policy in enumerate(policies)]
    while len(list(folder.glob("asked-*"))) < 3:
        await asyncio.sleep(0.01)
    await asyncio.wait_for(driver.aclose(), timeout=30)
    assert left_in(folder) == []
    ends = await asyncio.gather(*asking, return_exceptions=True)
    assert all(isinstance(end, EnvironmentFailed) for end in ends), "the policies are not to blame"
    with pytest.raises(EnvironmentFailed, match="shutting down"):
        await driver.open("ep-9", _spec("bot:act", folder), task(60))


def _spec(target: str, folder: Path = Path()) -> EpisodeSpec:
    wanted = task(60)
    return EpisodeSpec(
        episode_id="ep",
        task_id=wanted.id,
        task_digest=wanted.digest,
        world=wanted.world,
        policy=PolicySpec(target=target, directory=str(folder)),
        limits=wanted.limits,
    )


@pytest.mark.parametrize("target", ["no-such-script", "exec:", "exec:'unclosed", "bot:", "../bot.py:act"])
async def test_a_bad_name_is_a_bad_policy(target: str, opened: Open) -> None:
    with pytest.raises(BadPolicy, match="policy: "):
        await opened(target)


async def test_a_directory_that_is_gone_is_a_bad_policy(driver: PolicyDriver, folder: Path) -> None:
    with pytest.raises(BadPolicy, match=r"policy\.directory: .*gone"):
        await driver.open("ep", _spec("bot:act", folder / "gone"), task(60))
