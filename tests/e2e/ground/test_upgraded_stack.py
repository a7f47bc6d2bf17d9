"""An embedded stack whose code has changed under an episode that the new code cannot go on with."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.eventually import eventually
from workers.builds import build_id

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("schemas", "tiltyard", "activities", "workflows", "infra", "workers", "ops", "tasks")
RUN = "        failure: BaseException | None = None\n"
ASKS = """
def act(view):
    return {"give_up": "asked"} if view["turn"] else {"ask": "may I?"}
"""


class Program:
    """The command line of a copy of the project, on one data folder."""

    def __init__(self, root: Path, home: Path, folder: Path) -> None:
        self._root, self._home, self._folder = root, home, folder

    def __call__(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> Any:
        """Its answer; ``codes`` are the exit codes that it may end with."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TILTYARD_")}
        own = {"PYTHONPATH": str(self._root), "TILTYARD_HOME": str(self._home), "TILTYARD_JANITOR_S": "1"}
        done = subprocess.run(
            [sys.executable, "-P", "-m", "ops.cli.main", *arguments, "--json"],
            cwd=self._folder,
            env={**inherited, **own},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode in codes, (arguments, done.stdout, done.stderr)
        return json.loads(done.stdout.splitlines()[0])

    def diagnosis(self) -> dict[str, Any]:
        """What the doctor says of versions; other things may be missing on this machine."""
        checks = self("doctor", codes=(0, 3))["checks"]
        found: dict[str, Any] = next(one for one in checks if one["name"] == "versions")
        return found


def copied(folder: Path, *, careless: bool) -> Path:
    """The project; its workflows do something first where the change is ``careless``."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    if careless:
        episode = folder / "workflows/episode.py"
        assert episode.read_text().count(RUN) == 1
        episode.write_text(episode.read_text().replace(RUN, f"        await workflow.sleep(1)\n{RUN}"))
    return folder


def test_it_is_named_and_goes_on_when_its_code_comes_back(tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(ASKS)
    places = (tmp_path / "home", tmp_path)
    before = Program(copied(tmp_path / "before", careless=False), *places)
    after = Program(copied(tmp_path / "after", careless=True), *places)
    try:
        episode = before("run", "replacement/reply-lost/1", "--policy", "asks:act", "--detach")["episode_id"]
        eventually(lambda: before("episodes", "show", episode)["phase"] == "question", "the question")
        assert before.diagnosis()["ok"]
        after("up")
        problem = eventually(lambda: None if (said := after.diagnosis())["ok"] else said, "a problem")
        assert episode in problem["detail"]
        assert "Timer machine does not handle this event" in problem["detail"]
        assert "go back to the code that began them" in problem["fix"]
        (told,) = after("status")["stranded"]
        assert (told["episode_id"], told["version"]) == (episode, build_id(tmp_path / "before"))
        before("up")
        before("episodes", "answer", episode, "yes")
        assert before("episodes", "watch", episode)["end"] == "gave_up"
    finally:
        before("down")
