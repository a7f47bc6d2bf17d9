"""What ``episodes show`` tells of episodes on a real stack: ended ones, two of a task, and one that runs."""

from functools import cache

import pytest

from tests.e2e.cli.cli_calls import Cli
from tests.e2e.cli.test_on_stack import ASKS, RESULT_FIELDS
from tests.eventually import eventually

TASK = "replacement/reply-lost/1"


@pytest.fixture(scope="module")
def episode(stack_cli: Cli) -> "Episodes":
    return Episodes(stack_cli)


class Episodes:
    """Episodes of the task, each played once."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        self.by = cache(self._by)

    def _by(self, policy: str) -> str:
        return str(self._cli("run", TASK, "--policy", policy, "--json").object["episode_id"])


def test_a_story_has_the_result_the_facts_behind_it_and_the_times_of_the_phases(
    stack_cli: Cli, episode: Episodes
) -> None:
    said = stack_cli("episodes", "show", episode.by("new_id_retry"), "--json").object
    assert said.keys() >= RESULT_FIELDS | {"story"}
    assert said["timings"].keys() == {
        *("lease", "turns", "close", "settle", "seal", "drain", "collect", "grade"),
    }
    story = said["story"]
    times = {phase["name"]: phase["seconds"] for phase in story["phases"]}
    assert [name for name, seconds in times.items() if seconds is None] == ["recycle"]
    (lost,) = [call for turn in story["turns"] for call in turn["calls"] if call["fault"]]
    assert (lost["shown"]["status"], lost["effect"], lost["receipt"]["tool"]) == (
        "timeout",
        True,
        "create_replacement",
    )
    assert {change["job"] for change in story["later"]} == {"job-000001", "job-000002"}
    text = stack_cli("episodes", "show", episode.by("new_id_retry")).out
    assert f"[{lost['delivery_id']}]" in text
    assert "planned fault commit_then_drop: it took effect, and its reply was dropped" in text
    assert "replacements/R-1002 was created: NOT AS EXPECTED" in text
    assert "~ stock/aria-7: available 5 → 4" in text


def test_one_turn_in_full(stack_cli: Cli, episode: Episodes) -> None:
    mine = episode.by("new_id_retry")
    full = stack_cli("episodes", "show", mine, "--turn", "4", "--json").object
    assert [one["tool"] for one in full["deliveries"]] == ["create_replacement"]
    assert {"stock", "replacements", "~jobs", "~receipts"} <= {row["collection"] for row in full["ledger"]}
    assert 'before {"available": 5, ' in stack_cli("episodes", "show", mine, "--turn", "4").out
    refused = stack_cli("episodes", "show", mine, "--turn", "99", code=2)
    assert "--turn: there is no turn 99" in refused.err
    assert "give one of" in stack_cli("episodes", "show", mine, "--turn", "1", "--processes", code=2).err


def test_where_two_episodes_part(stack_cli: Cli, episode: Episodes) -> None:
    mine, other = episode.by("reconcile"), episode.by("new_id_retry")
    found = stack_cli("episodes", "show", mine, "--diff", other, "--json").object
    assert (found["turn"], found["before"], found["same_task"]) == (5, None, True)
    assert [found[side]["turn"]["calls"][0]["tool"] for side in ("left", "right")] == [
        "get_receipt",
        "create_replacement",
    ]
    text = stack_cli("episodes", "show", mine, "--diff", other).out
    assert "the decisions of turns 0 to 4 are the same; they part in turn 5" in text
    assert "right failed receipts" in text
    another = stack_cli("run", "replacement/approved/1", "--policy", "reconcile", "--json").object["episode_id"]
    refused = stack_cli("episodes", "show", mine, "--diff", another, code=2)
    assert f"--diff {another}: is an episode of replacement/approved/1" in refused.err


def test_of_an_episode_that_runs_its_turns_so_far(stack_cli: Cli) -> None:
    (stack_cli.folder / "asker.py").write_text(ASKS)
    mine = stack_cli("run", TASK, "--policy", "asker:act", "--detach", "--json").object["episode_id"]
    eventually(lambda: "asks: may I?" in stack_cli("episodes", "show", mine).out, "the question among its turns")
    said = stack_cli("episodes", "show", mine, "--json").object
    assert (said["phase"], [turn["ask"] for turn in said["story"]["turns"]]) == ("question", ["may I?"])
    assert said["failing"] == []
    assert stack_cli("episodes", "show", mine, "--turn", "0", "--json").object["turn"]["ask"] == "may I?"
    refused = stack_cli("episodes", "show", mine, "--diff", mine, code=2)
    assert "has not ended" in refused.err
    stack_cli("episodes", "stop", mine)
    stack_cli("episodes", "watch", mine)


def test_an_episode_with_commands_has_its_files_programs_and_hidden_tests(stack_cli: Cli) -> None:
    played = stack_cli("run", "code-repair/repair/1", "--policy", "test_deleter", "--json", code=None)
    if played.code or played.object["validity"] != "valid":
        pytest.skip(f"bubblewrap does not work here: {played.err}")
    result = played.object
    said = stack_cli("episodes", "show", result["episode_id"], "--json").object
    assert said["timings"].keys() >= {"provision", "lease", "collect"}
    story = said["story"]
    tests = {one["tests"]: (one["passed"], one["expected"]) for one in story["points"]["exams"]}
    assert tests.keys() == {"visible", "hidden"}
    assert all(passed < expected for passed, expected in tests.values())
    assert story["points"]["corrected"] is True
    text = stack_cli("episodes", "show", result["episode_id"]).out
    assert "tampering, with a failed contract, has left nothing of it" in text
    assert "  tests/test_pages.py was deleted\n" in text
    assert "lease" in text[text.index("\nphases\n") :]
    command = next(one for one in story["sandbox"]["facts"]["commands"] if one["do"] == "exec")
    turn = command["op_id"].split("/")[-2]
    full = stack_cli("episodes", "show", result["episode_id"], "--turn", turn, "--json").object
    assert command["op_id"] in {one["op_id"] for one in full["commands"]}
    assert full["turn"]["calls"][0]["delivery_id"] == command["op_id"]


def test_a_fork_names_its_parent_and_the_turns_that_are_its_parent_s(stack_cli: Cli, episode: Episodes) -> None:
    parent = episode.by("new_id_retry")
    fork = stack_cli("fork", parent, "--turn", "5", "--policy", "reconcile", "--json").object["episode_id"]
    said = stack_cli("episodes", "show", fork, "--json").object
    assert (said["origin"]["kind"], said["origin"]["episode_id"], said["origin"]["turn"]) == ("fork", parent, 5)
    kept = [turn["turn"] for turn in said["story"]["turns"] if turn["kept"]]
    assert kept == [0, 1, 2, 3, 4]
    lost = said["story"]["turns"][4]["calls"][0]
    assert (lost["fault"], lost["delivery_id"].split("/")[0]) == ("commit_then_drop", fork)
    text = stack_cli("episodes", "show", fork).out
    assert f"origin  fork of {parent} before turn 5" in text
    assert "turn 4 (world's clock: 65 s), of its parent" in text
    found = stack_cli("episodes", "show", parent, "--diff", fork, "--json").object
    assert (found["turn"], found["before"]) == (5, None)
