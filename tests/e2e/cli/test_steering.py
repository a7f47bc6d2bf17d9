"""Leaving a run, answering, steering several episodes, and looking at them without a stack."""

import re
import shlex
import signal
import subprocess

import pytest

from tests.e2e.cli.cli_calls import Cli
from tests.eventually import eventually

TASK = "replacement/reply-lost/1"

ASKS = """
SILENT = 40

def act(view):
    if view["turn"] == 0:
        return {"give_up": "at once"} if view["seed"] == SILENT else {"ask": "may I?"}
    return {"give_up": "the answer was " + str(view["transcript"][0]["observations"][0]["content"])}
"""


@pytest.fixture(scope="module")
def asking(stack_cli: Cli) -> Cli:
    (stack_cli.folder / "asker.py").write_text(ASKS)
    return stack_cli


def until_said(run: "subprocess.Popen[str]", words: str) -> str:
    """All that a command says on standard error up to the line with these words."""
    assert run.stderr is not None
    said = ""
    for line in run.stderr:
        said += line
        if words in line:
            return said
    raise AssertionError(f"it ended without {words!r}: {said}")


def commands(said: str, *words: str) -> list[list[str]]:
    """The printed commands that hold these words, without the program."""
    lines = [line.split("to follow one: ")[-1] for line in said.splitlines() if " ".join(words) in line]
    return [shlex.split(line)[1:] for line in lines]


def start(cli: Cli, *more: str) -> list[str]:
    run = cli("run", TASK, "--policy", "asker:act", "--detach", "--json", *more)
    return [one["episode_id"] for one in run.objects]


def asked(cli: Cli, episode: str) -> None:
    eventually(lambda: "may I?" in cli("episodes", "show", episode).out, "the question")


def test_a_run_tells_a_question_and_ctrl_c_leaves_it_and_the_trials_that_were_not_started(asking: Cli) -> None:
    trials = ("--seed", "40", "--repeat", "4", "--jobs", "1")
    with asking.start("run", TASK, "--policy", "asker:act", *trials) as run:
        (answer,) = commands(until_said(run, "episodes answer"), "episodes", "answer")
        run.send_signal(signal.SIGINT)
        done, said = run.communicate(timeout=120)
    assert run.returncode == 130, said
    assert "Traceback" not in said
    assert "1 of 4 trials ended" in said
    assert "gave_up, valid: at once" in done
    assert "1 episode paused; to go on:" in said
    assert "2 of 4 trials were not started" in said
    (resume,) = commands(said, "episodes", "resume")
    (again,) = commands(said, "run", TASK)
    assert again == ["run", TASK, "--policy", "asker:act", "--jobs", "1", "--seed", "42", "--repeat", "2"]
    listed = asking("episodes", "list", "--limit", "1")
    assert "question, paused" in listed.out
    asking(*answer[:-1], "yes, do")
    asking(*resume)
    assert "yes, do" in asking("episodes", "watch", resume[-1], "--json").object["reason"]


def test_several_episodes_are_steered_by_one_command(asking: Cli) -> None:
    first, second = start(asking, "--repeat", "2", "--seed", "10")
    for episode in (first, second):
        asked(asking, episode)
    assert [one["done"] for one in asking("episodes", "pause", first, second, "--json").objects] == ["paused"] * 2
    refused = asking("episodes", "resume", "e-nosuch", first, "e-neither", code=2)
    assert f"{first}: resumed" in refused.out
    assert "e-nosuch: there is no such episode" in refused.err
    assert "e-neither: there is no such episode" in refused.err
    states = {one["episode_id"]: one for one in asking("episodes", "list", "--limit", "2", "--json").objects}
    assert {one["phase"] for one in states.values()} == {"question"}
    assert (states[first]["paused"], states[second]["paused"]) == (False, True)
    asking("episodes", "stop", first, second)
    ends = {asking("episodes", "watch", one, "--json").object["end"] for one in (first, second)}
    assert ends == {"cancelled"}


def test_trials_can_be_told_apart(asking: Cli) -> None:
    detached = asking("run", TASK, "--policy", "do_nothing", "--repeat", "2", "--seed", "20", "--detach").out
    assert re.findall(r"seed (\d+)", detached) == ["20", "21"]
    table = asking("run", TASK, "--policy", "do_nothing", "--repeat", "2", "--seed", "20")
    assert [line.split()[2] for line in table.out.splitlines() if line.startswith(TASK)] == ["20", "21"]
    assert "by do_nothing, seed 20" in table.err


def test_looking_starts_nothing(asking: Cli) -> None:
    ended = asking("run", TASK, "--policy", "do_nothing", "--json").object["episode_id"]
    (open_one,) = start(asking, "--seed", "30")
    asked(asking, open_one)
    assert asking("status", "--json").object["open_episodes"] == 1
    down = asking("down")
    assert f"{open_one} asks: may I?" in down.out
    assert [open_one, "TEXT"] in [one[2:] for one in commands(down.out, "episodes", "answer")]
    assert "goes on when" not in down.out
    assert asking("episodes", "show", ended, "--json").object["end"] == "gave_up"
    shown = asking("episodes", "show", open_one)
    assert "no stack is running" in shown.out
    listed = {one["episode_id"]: one for one in asking("episodes", "list", "--json").objects}
    assert (listed[open_one]["phase"], listed[ended]["phase"]) == (None, "done")
    assert asking("status", "--json").object["running"] is False
    (up,), (again,) = commands(shown.out, "tiltyard up"), commands(shown.out, "tiltyard episodes show")
    asking(*up)
    (answer,) = commands(asking(*again).out, "episodes", "answer")
    asking(*answer[:-1], "go on")
    assert asking("episodes", "watch", open_one, "--json").object["end"] == "gave_up"


def test_down_tells_episodes_that_go_on_from_those_that_wait_for_a_person(asking: Cli) -> None:
    paused, asks = start(asking, "--repeat", "2", "--seed", "50")
    for episode in (paused, asks):
        asked(asking, episode)
    asking("episodes", "pause", paused)
    said = asking("down", "--json").object
    assert (said["open_episodes"], said["paused"], set(said["asking"])) == (2, [paused], {paused, asks})
    again = asking("down")
    assert "2 open episodes: they go on when the stack is next started, unless" in again.out
    asking("episodes", "stop", paused, asks)
    for episode in (paused, asks):
        asking("episodes", "watch", episode)


def test_ctrl_c_while_the_stack_comes_up_says_what_becomes_of_it(asking: Cli) -> None:
    asking("down")
    with asking.start("up") as up:
        until_said(up, "starting the stack")
        up.send_signal(signal.SIGINT)
        said = up.communicate(timeout=120)[1]
    assert up.returncode == 130, said
    assert "what was begun goes on" in said
    (down,) = re.findall(r"`(\S+ down)` ends it", said)
    asking(*shlex.split(down)[1:])
    assert asking("status", "--json").object["running"] is False


def test_a_folder_without_records_has_no_episodes_and_is_not_made(cli: Cli) -> None:
    assert cli("episodes", "list", "--json").out == ""
    assert "there is no such episode" in cli("episodes", "show", "e-1", code=2).err
    assert not cli.home.exists()
