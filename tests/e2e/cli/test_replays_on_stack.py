"""``tiltyard replay`` on a real stack: what is the same, what differs and why, and what cannot be replayed."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli.cli_calls import Cli
from tests.eventually import eventually
from tiltyard.suite import shipped

TASK = "replacement/reply-lost/1"
SHIPPED = Path(__file__).resolve().parents[3] / "tasks"

POLICIES = """
def asks(view):
    if view["turn"] == 0:
        return {"ask": "may I?"}
    return {"give_up": str(view["transcript"][0]["observations"][0]["content"])}


def fails(view):
    if view["turn"] == 2:
        raise ValueError("lost my mind")
    return {"calls": [{"tool": "list_policies", "arguments": {}}]}
"""


@pytest.fixture(scope="module")
def cli(stack_cli: Cli) -> Cli:
    (stack_cli.folder / "mine.py").write_text(POLICIES)
    return stack_cli


def run(cli: Cli, *words: str, code: int | None = 0) -> dict[str, Any]:
    found: dict[str, Any] = cli("run", *words, "--json", code=code).object
    return found


@pytest.fixture(scope="module")
def ordered(cli: Cli) -> str:
    """An episode whose order is accepted and whose reply is lost."""
    return str(run(cli, TASK, "--policy", "reconcile", "--seed", "5")["episode_id"])


def test_the_same_happens_again(cli: Cli, ordered: str) -> None:
    found = cli("replay", ordered, "--strict", "--json").object
    assert (found["diverged"], found["cause"], found["differs"], found["not_compared"]) == (False, None, [], [])
    assert (found["episode"], found["turns"]) == (ordered, 8)
    assert found["digests"]["episode"]["trace"] == found["digests"]["replay"]["trace"]
    result = cli("episodes", "show", found["replay"], "--json").object
    assert (result["policy"], result["seed"]) == ("recorded", 5)
    assert result["origin"] == {"kind": "replay", "episode_id": ordered, "turn": 0}
    said = cli("replay", found["replay"])
    assert f"of {found['replay']}" in said.out
    assert "8 turns and what they left" in said.out


def test_several_replays_are_counted(cli: Cli, ordered: str) -> None:
    *each, tally = cli("replay", ordered, "--times", "3", "--json").objects
    assert len({one["replay"] for one in each}) == 3
    assert (tally["times"], tally["agree"], tally["diverged"], tally["failed"]) == (3, 3, 0, 0)
    assert tally["flaky"] is False
    said = cli("replay", ordered, "--times", "2").out
    assert f"2 of 2 replays agree with {ordered}" in said
    assert "the replays all did the same" in said


@pytest.fixture(scope="module")
def edited(cli: Cli) -> Path:
    """A suite in which the lost reply of the family is a refusal."""
    folder = cli.folder / "suite" / "replacement"
    folder.mkdir(parents=True)
    text = (SHIPPED / "replacement" / "reply-lost.yaml").read_text()
    assert "commit_then_drop" in text
    (folder / "reply-lost.yaml").write_text(text.replace("commit_then_drop", "error_status"))
    return folder.parent


def test_an_edited_task_is_the_cause(cli: Cli, ordered: str, edited: Path) -> None:
    assert cli("replay", ordered, "--current-task").code == 0, "the task is as it was"
    found = cli("replay", ordered, "--tasks", str(edited), "--json", code=1).object
    assert (found["turn"], found["call"], found["what"], found["tool"]) == (
        4,
        0,
        "observation",
        "create_replacement",
    )
    assert (found["left"]["status"], found["right"]["status"]) == ("timeout", "error")
    assert found["cause"] == "environment_changed"
    assert {one["what"] for one in found["differs"]} == {"faults.0", "task digest"}
    said = cli("replay", ordered, "--tasks", str(edited), "--times", "2", code=1).out
    assert "0 of 2 replays agree" in said
    assert "2 first differ at turn 4, call 0: the call shows something else" in said
    assert "status: timeout -> error" in said


def test_what_people_answered_is_answered_again_at_once(cli: Cli) -> None:
    asked = cli("run", TASK, "--policy", "mine:asks", "--detach", "--json").object["episode_id"]
    eventually(lambda: "may I?" in cli("episodes", "show", asked).out, "the question")
    refused = cli("replay", asked, code=2)
    assert "has not ended" in refused.err
    cli("episodes", "answer", asked, "yes, do")
    assert cli("episodes", "watch", asked, "--json").object["reason"] == "yes, do"
    assert cli("replay", asked, "--strict", "--json").object["diverged"] is False


def test_a_stopped_episode_is_replayed_up_to_its_open_turn(cli: Cli) -> None:
    asked = cli("run", TASK, "--policy", "mine:asks", "--detach", "--json").object["episode_id"]
    eventually(lambda: "may I?" in cli("episodes", "show", asked).out, "the question")
    cli("episodes", "stop", asked, "--reason", "enough")
    assert cli("episodes", "watch", asked, "--json").object["end"] == "cancelled"
    found = cli("replay", asked, "--json").object
    assert (found["diverged"], found["turns"]) == (False, 0)
    assert found["not_compared"] == ["turn 0, which was open when the original ended (cancelled)"]
    assert cli("episodes", "show", found["replay"], "--json").object["reason"] == "enough"


def test_a_policy_that_failed_is_not_needed_again(cli: Cli) -> None:
    failed = run(cli, TASK, "--policy", "mine:fails")
    assert failed["end"] == "policy_error"
    (cli.folder / "mine.py").unlink()
    try:
        found = cli("replay", failed["episode_id"], "--strict", "--json").object
    finally:
        (cli.folder / "mine.py").write_text(POLICIES)
    assert (found["diverged"], found["turns"]) == (False, 2)


def test_a_fork_is_replayed_from_where_it_began(cli: Cli, ordered: str) -> None:
    forked = cli("fork", ordered, "--turn", "5", "--policy", "new_id_retry", "--json").object["episode_id"]
    found = cli("replay", forked, "--strict", "--json").object
    assert found["diverged"] is False, found
    assert cli("episodes", "show", found["replay"], "--json").object["origin"]["turn"] == 5


def test_commands_are_run_again_in_a_sandbox(cli: Cli) -> None:
    repaired = run(cli, "code-repair/repair/1", "--policy", "reference", code=None)
    if repaired["validity"] != "valid":
        pytest.skip(f"bubblewrap does not work here: {repaired['reason']}")
    assert cli("replay", repaired["episode_id"], "--strict", "--json").object["differs"] == []


def test_an_episode_whose_trace_is_gone_lacks_its_input(cli: Cli) -> None:
    lost = run(cli, "replacement/approved/1", "--policy", "do_nothing", "--seed", "77")
    name = lost["trace"].removeprefix("sha256:")
    (kept,) = [
        file for file in (cli.home / "objects").rglob("*") if file.is_file() and name.endswith(file.name[-40:])
    ]
    away = kept.rename(cli.folder / "away")
    found = cli("replay", lost["episode_id"], "--json", code=1).object
    away.rename(kept)
    assert (found["cause"], found["what"], found["replay"]) == ("missing_input", "input", "")
    assert lost["trace"] in found["left"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("replay", "e-nobody"), "there is no such episode"),
        (("run", TASK, "--policy", "recorded"), "tiltyard replay EPISODE"),
    ],
)
def test_what_cannot_be_replayed_is_wrong_use(cli: Cli, words: tuple[str, ...], said: str) -> None:
    assert said in cli(*words, code=2).err


def test_the_shipped_task_is_the_one_of_the_tests() -> None:
    assert shipped().task(TASK).faults[0].kind == "commit_then_drop"
