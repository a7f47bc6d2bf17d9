"""The benchmarks as a command: a small run, and one that is interrupted. Their figures are never asserted."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psutil

MODULE = (sys.executable, "-m", "ops.bench")
INTERRUPTED = 130


def started(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """The command with ``folder`` for what is temporary."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen(
        [*MODULE, *arguments], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def left_of(folder: Path) -> list[str]:
    """Files there, and processes that were told of it."""
    told = (process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"]))
    running = [" ".join(words) for words in told if any(str(folder) in word for word in words)]
    return [*running, *(file.name for file in folder.iterdir())]


def test_a_small_run_tells_of_commands_and_leaves_nothing(tmp_path: Path) -> None:
    process = started(tmp_path, "--only", "exec", "--episodes", "2", "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    machine, report = map(json.loads, out.splitlines())
    assert machine["machine"]["Python"]
    assert report["subject"] == "exec"
    figures = {figure["what"]: figure for figure in report["figures"]}
    for program in ("/bin/true", "python3 -ISc pass"):
        assert figures[f"{program}, fork and exec"]["median"] > 0
        for driver in ("bubblewrap", "unsafe-local"):
            boxed = figures[f"{program}, {driver}"]
            assert boxed["skipped"] or (boxed["count"] == 2 and boxed["ratio"] > 0), boxed
    assert len(figures) == len(report["figures"])  # no two are called the same
    assert left_of(tmp_path) == []
    ((place, command),) = re.findall(r"starting the stack in (\S+) \(`([^`]+)` ends it\)", err)
    assert shlex.split(command)[1:] == ["--home", place, "down"], "and not another stack of this user"


def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    process = started(tmp_path, "--only", "temporal")
    assert process.stderr is not None
    while "an episode has" not in process.stderr.readline():  # its stack is up, and workflows run
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert left_of(tmp_path) == []


def test_a_small_run_tells_of_replays(tmp_path: Path) -> None:
    process = started(tmp_path, "--only", "replays", "--episodes", "2", "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    _, report = map(json.loads, out.splitlines())
    episode, replay, _, rate = report["figures"]
    assert episode["against"] == replay["what"]
    assert min(episode["ratio"], replay["median"], rate["median"]) > 0
    assert left_of(tmp_path) == []


def test_a_small_run_tells_of_forks(tmp_path: Path) -> None:
    process = started(tmp_path, "--only", "forks", "--episodes", "2", "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    _, report = map(json.loads, out.splitlines())
    if len(report["figures"]) > 1:  # one says why there are none
        early, late, *writes, first, then, same, more = report["figures"]
        assert (late["against"], len(writes)) == (early["what"], 2)
        assert min(early["median"], late["median"], *(figure["median"] for figure in writes)) > 0
        assert {figure["unit"] for figure in (first, then, same, more)} == {"B"}  # of few turns only whole pages
    assert left_of(tmp_path) == []
