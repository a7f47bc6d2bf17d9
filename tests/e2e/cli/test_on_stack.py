"""Commands on a real stack, in a data folder whose path is too long for a socket."""

import json
import os
import re
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from infra.local.paths import StackPaths
from infra.local.state import read_state
from infra.sockets import fits
from tests.e2e.cli.cli_calls import Cli
from tests.eventually import eventually

TASK = "replacement/reply-lost/1"
RESULT_FIELDS = {
    *("episode_id", "task", "policy", "seed", "end", "validity", "score", "contracts", "safety", "risks", "drain"),
    *("counts", "digests", "timings"),
}

ASKS = """
def act(view):
    if view["turn"] == 0:
        return {"ask": "may I?"}
    return {"give_up": "the answer was " + str(view["transcript"][0]["observations"][0]["content"])}
"""

WAITS_FOR_A_FILE = """
import time
from pathlib import Path


def act(view):
    if view["turn"] == 0:
        Path("started").touch()
        while not Path("go").exists():
            time.sleep(0.02)
        return {"calls": [{"tool": "list_policies", "arguments": {}}]}
    return {"give_up": "done"}
"""


def test_the_first_command_starts_the_stack_and_says_so(stack_cli: Cli) -> None:
    assert not fits(stack_cli.home)
    said = stack_cli("run", TASK, "--policy", "reconcile", "--json")
    assert "starting the stack in" in said.err
    result = said.object
    assert result.keys() >= RESULT_FIELDS
    assert (result["end"], result["validity"], result["score"]["total"]) == ("submitted", "valid", 1.0)
    again = stack_cli("run", TASK, "--policy", "reconcile", "--json")
    assert "starting the stack" not in again.err
    assert again.object["digests"]["trace"] == result["digests"]["trace"]
    assert stack_cli("status", "--json").object["ends_when_idle"] is True


def test_everything_lies_in_the_data_folder_whatever_its_name(stack_cli: Cli) -> None:
    """Its name holds what means something in a URL; a part of it must not become another folder's name."""
    assert set("?#%") <= set(stack_cli.home.name)
    assert list(stack_cli.home.parent.iterdir()) == [stack_cli.home]
    made = {file.relative_to(stack_cli.home).as_posix() for file in stack_cli.home.rglob("*.db")}
    assert made == {"records.db", "worlds.db", "temporal/temporal.db"}


def test_several_trials_are_json_lines_and_a_mean(stack_cli: Cli) -> None:
    results = stack_cli("run", "replacement/reply-lost/[12]", "--policy", "new_id_retry", "--repeat", "2", "--json")
    trials = sorted((one["task"][-1], one["seed"]) for one in results.objects)
    assert trials == [("1", 0), ("1", 1), ("2", 0), ("2", 1)]
    assert all(one["counts"]["duplicates"] == 1 for one in results.objects if one["task"] == TASK)
    text = stack_cli("run", "replacement/reply-lost/[12]", "--policy", "do_nothing", "--fail-under", "0.1", code=1)
    assert "mean score of 2 trials: 0.000" in text.out
    assert "below 0.1" in text.err


def test_a_run_whose_reader_leaves_says_what_it_did_not_start(stack_cli: Cli) -> None:
    trials = ("run", TASK, "--policy", "do_nothing", "--repeat", "40", "--jobs", "1", "--json")
    with stack_cli.start(*trials) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert json.loads(running.stdout.readline())["end"] == "gave_up"
        running.stdout.close()
        said = running.stderr.read()
    assert running.returncode == 141, said
    found = re.search(r"(\d+) of 40 trials were not started", said)
    assert found is not None, said
    assert int(found[1]) > 0
    listed = stack_cli("episodes", "list", "--json").objects
    assert sum(one["policy"] == "do_nothing" for one in listed) >= 40 - int(found[1])


def test_a_detached_episode_is_listed_and_watched_to_its_end(stack_cli: Cli) -> None:
    started = stack_cli("run", TASK, "--policy", "handoff", "--seed", "3", "--detach", "--json").object
    watched = stack_cli("episodes", "watch", started["episode_id"], "--json").object
    assert (watched["episode_id"], watched["end"]) == (started["episode_id"], "submitted")
    listed = stack_cli("episodes", "list", "--limit", "1", "--json").object
    assert (listed["episode_id"], listed["seed"], listed["end"]) == (started["episode_id"], 3, "submitted")
    assert started["episode_id"] in stack_cli("episodes", "show", started["episode_id"]).out


def test_a_question_waits_for_its_answer(stack_cli: Cli) -> None:
    (stack_cli.folder / "asker.py").write_text(ASKS)
    episode = stack_cli("run", TASK, "--policy", "asker:act", "--detach", "--json").object["episode_id"]

    def asked() -> bool:
        return "may I?" in stack_cli("episodes", "show", episode).out

    eventually(asked, "the question")
    stack_cli("episodes", "answer", episode, "yes, do")
    result = stack_cli("episodes", "watch", episode, "--json").object
    assert result["end"] == "gave_up"
    assert "yes, do" in result["reason"]


def test_a_run_whose_stack_is_taken_down_ends_and_says_how_to_go_on(stack_cli: Cli) -> None:
    (stack_cli.folder / "asker.py").write_text(ASKS)

    def started() -> list[str]:
        listed = stack_cli("episodes", "list", "--json").objects
        return [one["episode_id"] for one in listed if one["seed"] == 77]

    with stack_cli.start("run", TASK, "--policy", "asker:act", "--seed", "77") as running:
        try:
            eventually(lambda: bool(started()), "the start of the episode")
            stack_cli("down")
            _, said = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 3, said
    assert re.search(
        r"the stack has ended: ended by `\S+ down`.*`\S+ episodes watch EPISODE` starts the stack", said
    )
    (episode,) = started()
    stack_cli("episodes", "stop", episode)
    assert stack_cli("episodes", "watch", episode, "--json").object["end"] == "cancelled"


def test_a_stopped_episode_is_recorded_with_the_reason(stack_cli: Cli) -> None:
    (stack_cli.folder / "asker.py").write_text(ASKS)
    episode = stack_cli("run", TASK, "--policy", "asker:act", "--detach", "--json").object["episode_id"]
    stack_cli("episodes", "stop", episode, "--reason", "seen enough")
    result = stack_cli("episodes", "watch", episode, "--json").object
    assert (result["end"], result["reason"]) == ("cancelled", "seen enough")


def test_an_unknown_or_ended_episode_is_bad_input(stack_cli: Cli) -> None:
    for command in ("show", "pause", "stop"):
        said = stack_cli("episodes", command, "e-nosuch", code=2)
        assert "there is no such episode" in said.err
    ended = stack_cli("run", TASK, "--policy", "do_nothing", "--json").object["episode_id"]
    assert "ended" in stack_cli("episodes", "pause", ended, code=2).err


@pytest.fixture
def one_turn_slices(stack_cli: Cli) -> Cli:
    """Slices of one turn, so that every turn boundary is one at which the workflow can hold."""
    return replace(stack_cli, settings=(("TILTYARD_SLICE_S", "0.001"),))


@pytest.fixture
def held(stack_cli: Cli) -> Path:
    """A policy that holds its first turn until the test lets it go."""
    (stack_cli.folder / "waiter.py").write_text(WAITS_FOR_A_FILE)
    for name in ("started", "go"):
        (stack_cli.folder / name).unlink(missing_ok=True)
    return stack_cli.folder


def interrupted(run: "subprocess.Popen[str]", held: Path) -> str:
    """The first Ctrl-C, when the policy is at its first turn; what the command says at once."""
    eventually((held / "started").exists, "the policy's first turn")
    run.send_signal(signal.SIGINT)
    assert run.stderr is not None
    said = ""
    while "pausing at the turn boundary" not in said:
        said = run.stderr.readline()
        assert said, "it ended without a word"
    return said


def left(run: "subprocess.Popen[str]", what: str) -> list[str]:
    """The command that it prints for coming back, when it has ended as interrupted."""
    said = run.communicate(timeout=120)[1]
    assert run.returncode == 130, said
    assert "Traceback" not in said
    found = re.search(rf"tiltyard (episodes {what} \S+)", said)
    assert found is not None, said
    return found[1].split()


def test_ctrl_c_pauses_at_the_turn_boundary_and_says_how_to_resume(one_turn_slices: Cli, held: Path) -> None:
    cli = one_turn_slices
    run = cli.start("run", TASK, "--policy", "waiter:act")
    interrupted(run, held)
    episode = cli("episodes", "list", "--limit", "1", "--json").object["episode_id"]
    eventually(lambda: bool(cli("episodes", "show", episode, "--json").object["paused"]), "the request to pause")
    (held / "go").touch()
    resume = left(run, "resume")
    assert cli("episodes", "show", episode, "--json").object["phase"] == "paused"
    cli(*resume)
    assert cli("episodes", "watch", episode, "--json").object["end"] == "gave_up"


def test_ctrl_c_twice_leaves_the_episode_running(one_turn_slices: Cli, held: Path) -> None:
    run = one_turn_slices.start("run", TASK, "--policy", "waiter:act")
    interrupted(run, held)
    run.send_signal(signal.SIGINT)
    watch = left(run, "watch")
    (held / "go").touch()
    assert one_turn_slices(*watch, "--json").object["end"] == "gave_up"


def test_a_running_episode_survives_down_and_goes_on_after_up(stack_cli: Cli, held: Path) -> None:
    episode = stack_cli("run", TASK, "--policy", "waiter:act", "--detach", "--json").object["episode_id"]
    eventually((held / "started").exists, "the policy's first turn")
    stack_cli("down")
    (held / "go").touch()
    stack_cli("up")
    assert stack_cli("status", "--json").object["ends_when_idle"] is False
    result = stack_cli("episodes", "watch", episode, "--json").object
    assert (result["end"], result["validity"]) == ("gave_up", "valid")


def test_a_stack_killed_as_a_whole_is_noticed_and_repaired(stack_cli: Cli) -> None:
    stack_cli("up")
    paths = StackPaths(stack_cli.home)
    state = read_state(paths.state)
    assert state is not None
    os.kill(state.supervisor.pid, signal.SIGKILL)
    eventually(lambda: not state.running, "the supervisor's end")
    report = stack_cli("doctor", "--json", code=3).object
    (problem,) = [one for one in report["checks"] if not one["ok"]]
    assert (problem["name"], problem["detail"]) == ("stack", "was killed")
    assert "tiltyard up" in problem["fix"]
    result = stack_cli("run", TASK, "--policy", "reconcile", "--json")
    assert "repairing" in result.err
    assert result.object["score"]["total"] == 1.0
    assert stack_cli("doctor", "--json").object["ok"] is True


def test_the_doctor_names_processes_that_hang(stack_cli: Cli) -> None:
    stack_cli("up")
    state = read_state(StackPaths(stack_cli.home).state)
    assert state is not None
    pids = {one.name: one.process.pid for one in state.processes if one.process}
    marker = Path(StackPaths(stack_cli.home).runtime.read_text().strip()) / "worker.ready"
    stopped = [pids["world"], pids["worker"]]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        os.utime(marker, (0, 0))
        report = stack_cli("doctor", "--json", code=3).object
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    bad = {one["name"]: one["detail"] for one in report["checks"] if not one["ok"]}
    assert bad.keys() == {"world server", "signs of life"}
    assert "worker" in bad["signs of life"]


def test_a_task_queue_of_ones_own_is_served_and_an_episode_on_another_is_refused(
    stack_cli: Cli, held: Path
) -> None:
    other = replace(stack_cli, settings=(("TILTYARD_TASK_QUEUE", "other"),))
    elsewhere = stack_cli("run", TASK, "--policy", "waiter:act", "--detach", "--json").object["episode_id"]
    said = other("run", TASK, "--policy", "reconcile", "--json")
    assert "settings have changed" in said.err
    assert said.object["score"]["total"] == 1.0
    for command in ("watch", "stop"):
        assert "TILTYARD_TASK_QUEUE=tiltyard" in other("episodes", command, elsewhere, code=2).err
    (held / "go").touch()
    stack_cli("episodes", "watch", elsewhere)


def test_logs_of_every_process(stack_cli: Cli) -> None:
    lines = [json.loads(line) for line in stack_cli("logs", "--json").out.splitlines()]
    assert {line["process"] for line in lines} == {"supervisor", "temporal", "world", "sandboxes", "worker"}
    assert "is ready" in stack_cli("logs", "supervisor", "-n", "50").out
