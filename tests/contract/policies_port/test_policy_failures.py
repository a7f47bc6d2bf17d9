"""Whatever a policy does is ``PolicyFailed`` within its limit, says what happened, and leaves nothing behind."""

import itertools
import os
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest

from infra.policies.child import LIMIT_BYTES
from infra.policies.driver import PolicyDriver
from tests.contract.policies_port.bench import SHORT_S, Open, Write, left_in, view
from tiltyard.errors import PolicyFailed
from tiltyard.ports import OpenPolicy

ANSWER = "import sys, time, os, signal, subprocess\nsys.stdin.readline()\n"
"""The beginning of a policy in plain Python: it has read its view."""

MISBEHAVIOURS: dict[str, tuple[str, str]] = {
    "hangs": ("while True: time.sleep(1)", "gave no decision within 1.5 s"),
    "is busy for ever": ("while True: pass", "gave no decision within 1.5 s"),
    "ignores TERM": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)",
        "gave no decision within 1.5 s",
    ),
    "stops itself": ("os.kill(os.getpid(), signal.SIGSTOP)", "gave no decision within 1.5 s"),
    "raises": ("raise KeyError('the ticket')", r"ended with status 1 before it decided: KeyError: 'the ticket'"),
    "ends with one line": ("sys.exit('no key')", r"ended with status 1 before it decided: no key$"),
    "ends": ("sys.exit(0)", "ended with status 0 before it decided"),
    "is killed": ("os.kill(os.getpid(), signal.SIGKILL)", r"ended with status 137 \(SIGKILL\)"),
    "closes its output": ("os.close(1)\nwhile True: time.sleep(1)", "closed its standard output before it decided"),
    "floods its output": (
        'while True: print(\'{"give_up": "x"}\')',
        "more than one line for a turn",
    ),
    "writes an endless line": ("while True: sys.stdout.write('x' * 65536)", f"a line of over {LIMIT_BYTES} bytes"),
    "floods its log": ("while True: sys.stderr.write('x' * 65536)", f"over {LIMIT_BYTES} bytes to standard error"),
    "decides twice": (
        'sys.stdout.write(\'{"give_up": "x"}\\n{"give_up": "y"}\\n\'); sys.stdout.flush(); time.sleep(60)',
        "more than one line for a turn",
    ),
    "writes no JSON": ("print('I think I should look it up'); time.sleep(60)", "Invalid JSON"),
    "writes no UTF-8": ("sys.stdout.buffer.write(b'\\xff\\xfe\\n'); time.sleep(60)", "Invalid JSON"),
    "writes an empty line": ("print(); time.sleep(60)", "Invalid JSON"),
    "nests without end": ("print('[' * 100000); time.sleep(60)", "Invalid JSON"),
    "writes a number too large": ('print(\'{"submit": {"n": 1e999}}\'); time.sleep(60)', "not valid"),
    "writes half a character": ('print(\'{"give_up": "\\\\ud800"}\'); time.sleep(60)', "Invalid JSON"),
    "names no tool": (
        'print(\'{"calls": [{"name": "find"}]}\'); time.sleep(60)',
        r"calls\.0\.tool: Field required",
    ),
    "decides nothing": ("print('{}'); time.sleep(60)", "exactly one of calls, ask, submit, give_up"),
    "invents a field": ('print(\'{"give_up": "x", "mood": 1}\'); time.sleep(60)', "mood: Extra inputs"),
    "leaves a child behind": ("subprocess.Popen(['sleep', '600']); sys.exit(3)", "ended with status 3"),
    "leaves a daemon behind": (
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(600)\n    os._exit(0)\nsys.exit(3)",
        "ended with status 3",
    ),
    "leaves a daemon without its mark behind": (
        "subprocess.Popen(['sleep', '600'], env={}, start_new_session=True); sys.exit(3)",
        "ended with status 3",
    ),
    "kills its guardian and hangs": (
        "os.kill(os.getppid(), signal.SIGKILL)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "while True: time.sleep(1)",
        r"ended with status -9 \(SIGKILL\)",
    ),
    "kills its guardian and leaves a daemon": (
        "if os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\nos.kill(os.getppid(), signal.SIGKILL)",
        "gave no decision within 1.5 s",
    ),
    "stops its whole group": ("os.kill(0, signal.SIGSTOP)", "gave no decision within 1.5 s"),
}


@pytest.mark.parametrize("name", MISBEHAVIOURS)
async def test_a_policy_that(name: str, opened: Open, write: Write, driver: PolicyDriver, folder: Path) -> None:
    source, message = MISBEHAVIOURS[name]
    path = write(ANSWER + source)
    hangs = "gave no decision" in message
    policy = await opened(f"exec:{sys.executable} {shlex.quote(path.name)}", turn_s=SHORT_S if hangs else 60)
    with pytest.raises(PolicyFailed, match=message):
        await _until_it_fails(policy)
    await driver.close("ep-1")
    assert left_in(folder) == []


async def _until_it_fails(policy: OpenPolicy) -> None:
    """A flood's lines are decisions as long as they come one by one; sooner or later one is too many."""
    for turn in itertools.count():
        await policy.act(view(turn))


OBJECTS: dict[str, tuple[str, str]] = {
    "raises": ("def act(view): raise ValueError('no such ticket')", "status 1 .*: ValueError: no such ticket"),
    "cannot be imported": (
        "import nothing_of_the_kind",
        "ModuleNotFoundError: No module named 'nothing_of_the_kind'",
    ),
    "has no act": ("class act: pass", "act is no policy: it has no act"),
    "returns nothing": ("def act(view): return None", "act returned NoneType; return a dict"),
    "returns what JSON cannot hold": (
        "def act(view): return {'submit': {'at': object()}}",
        "not JSON serializable",
    ),
    "returns an invalid decision": ("def act(view): return {'submit': 'R-1'}", "submit: Input should be"),
    "exits": ("def act(view): raise SystemExit(4)", "ended with status 4"),
    "closes every descriptor": (
        "import os\ndef act(view):\n    os.closerange(0, 100)\n    while True: pass",
        "closed its standard output",
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
async def test_an_object_that(name: str, opened: Open, write: Write, driver: PolicyDriver, folder: Path) -> None:
    source, message = OBJECTS[name]
    write(source)
    policy = await opened("bot:act")
    with pytest.raises(PolicyFailed, match=message):
        await policy.act(view())
    await driver.close("ep-1")
    assert left_in(folder) == []


async def test_a_program_that_has_gone_is_named(opened: Open) -> None:
    policy = await opened("exec:no-such-program --x")
    with pytest.raises(PolicyFailed, match=r"status 1 .*: cannot start 'no-such-program': No such file"):
        await policy.act(view())


async def test_a_decision_too_many_is_noticed_at_the_next_turn(opened: Open, write: Write, folder: Path) -> None:
    path = write(
        'import pathlib, sys, time\nsys.stdin.readline()\nprint(\'{"give_up": "x"}\', flush=True)\n'
        "while not pathlib.Path('go').exists(): time.sleep(0.01)\n"
        "print('{\"give_up\": \"y\"}', flush=True)\npathlib.Path('done').touch()\nsys.stdin.read()\n"
    )
    policy = await opened(f"exec:{sys.executable} {path.name}")
    assert (await policy.act(view())).give_up == "x"
    (folder / "go").touch()
    while not (folder / "done").exists():
        time.sleep(0.01)  # the event loop stands still: nothing has been read when the policy is asked again
    with pytest.raises(PolicyFailed, match="more than one line"):
        await policy.act(view(turn=1))


async def test_a_policy_that_decides_without_reading_is_noticed(opened: Open, write: Write) -> None:
    path = write('import time\nprint(\'{"give_up": "x"}\', flush=True)\ntime.sleep(600)\n')
    policy = await opened(f"exec:{sys.executable} {path.name}")
    await policy.act(view(instruction="x" * 1_000_000))
    with pytest.raises(PolicyFailed, match="decided without reading the view"):
        await policy.act(view(turn=1))


async def test_after_a_failure_the_policy_is_started_again(opened: Open, write: Write) -> None:
    write("def act(view):\n    if view['turn'] == 0: raise ValueError\n    return {'submit': {}}")
    policy = await opened("bot:act")
    with pytest.raises(PolicyFailed):
        await policy.act(view(turn=0))
    assert (await policy.act(view(turn=1))).submit == {}


async def test_a_guardian_killed_between_turns_leaves_nothing(
    opened: Open, write: Write, driver: PolicyDriver, folder: Path
) -> None:
    write("import os\ndef act(view): return {'submit': {'guardian': os.getppid()}}")
    policy = await opened("bot:act")
    decision = await policy.act(view())
    assert decision.submit is not None
    os.kill(int(str(decision.submit["guardian"])), signal.SIGKILL)
    await driver.close("ep-1")
    assert left_in(folder) == []
