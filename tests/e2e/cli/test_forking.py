"""``tiltyard fork`` by command, on a running stack."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli.cli_calls import Cli

TASK = "replacement/reply-lost/1"

POLITE = """
def act(view):
    return {"give_up": view["instruction"] + " after " + str(len(view["transcript"]))}
"""


@pytest.fixture(scope="module")
def parent(stack_cli: Cli) -> Any:
    return stack_cli("run", TASK, "--policy", "new_id_retry", "--seed", "5", "--json").object


def test_with_nothing_else_it_does_what_its_parent_did(stack_cli: Cli, parent: Any) -> None:
    fork = stack_cli("fork", parent["episode_id"], "--turn", "3", "--json").object
    assert fork["origin"] == {"kind": "fork", "episode_id": parent["episode_id"], "turn": 3}
    assert (fork["digests"], fork["score"], fork["seed"]) == (parent["digests"], parent["score"], 5)
    assert stack_cli("episodes", "show", parent["episode_id"], "--json").object["score"] == parent["score"]


def test_another_policy_gets_out_of_it(stack_cli: Cli, parent: Any) -> None:
    forks = stack_cli(
        *("fork", parent["episode_id"], "--turn", "4", "--policy", "reconcile", "--repeat", "2", "--json")
    ).objects
    assert sorted(fork["seed"] for fork in forks) == [5, 6]
    assert {fork["counts"]["duplicates"] for fork in forks} == {0} != {parent["counts"]["duplicates"]}
    told = stack_cli("episodes", "show", forks[0]["episode_id"]).out
    assert f"fork of {parent['episode_id']}" in told


def test_a_policy_of_one_s_own_with_another_instruction(stack_cli: Cli, parent: Any, tmp_path: Path) -> None:
    (stack_cli.folder / "polite.py").write_text(POLITE)
    wanted = ("--policy", "polite:act", "--instruction", "Stop.", "--limit", "turns=9")
    fork = stack_cli("fork", parent["episode_id"], "--turn", "2", *wanted, "--json").object
    assert (fork["end"], fork["reason"]) == ("gave_up", "Stop. after 2")
    assert fork["digests"]["task"] != parent["digests"]["task"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--turn", "99"), "choose one from 0 to"),
        (("--turn", "1", "--limit", "turn=3"), "did you mean turns?"),
        (("--turn", "1", "--limit", "turns=many"), "is not NAME=NUMBER"),
        (("--turn", "1", "--limit", "turns=0"), "limits.turns"),
        (("--turn", "1", "--instruction", ""), "instruction"),
        (("--turn", "1", "--policy", "reconcil"), "did you mean reconcile"),
        (("--turn", "1", "--policy", "test_deleter"), "works in a sandbox"),
        (("--turn", "1", "--policy", "recorded"), "tiltyard replay"),
        (("--turn", "1", "--faults", "nowhere.yaml"), "nowhere.yaml"),
        (("--turn", "-1"), "-1"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_cannot_be_is_refused_by_name_and_nothing_is_planned(
    stack_cli: Cli, parent: Any, words: tuple[str, ...], says: str
) -> None:
    before = len(stack_cli("episodes", "list", "--limit", "1000", "--json").objects)
    refused = stack_cli("fork", parent["episode_id"], *words, code=2)
    assert says in refused.err
    assert len(stack_cli("episodes", "list", "--limit", "1000", "--json").objects) == before


def test_a_fault_plan_in_a_file(stack_cli: Cli, parent: Any) -> None:
    plan, wrong = stack_cli.folder / "calm.yaml", stack_cli.folder / "wrong.yaml"
    plan.write_text("faults: []\n")
    wrong.write_text("faults: [{tool: create_replacement, kind: explode}]\n")
    assert (
        "faults.0.kind"
        in stack_cli("fork", parent["episode_id"], "--turn", "1", "--faults", wrong.name, code=2).err
    )
    calm = stack_cli("fork", parent["episode_id"], "--turn", "1", "--faults", plan.name, "--json").object
    none = stack_cli("fork", parent["episode_id"], "--turn", "1", "--faults", "none", "--json").object
    assert calm["digests"] == none["digests"] != parent["digests"]
    assert calm["counts"]["duplicates"] == 0, "without a lost reply nothing is resent"


def test_of_no_episode(stack_cli: Cli) -> None:
    assert "there is no such episode" in stack_cli("fork", "e-nothing", "--turn", "1", code=2).err
