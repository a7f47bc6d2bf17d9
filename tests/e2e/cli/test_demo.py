"""The demo: what it shows, that it shows it truly, and that it leaves nothing running."""

from pathlib import Path

import pytest

from infra.local.paths import StackPaths
from infra.local.processes import alive
from infra.local.state import read_state
from tests.e2e.cli.cli_calls import Cli, Said

README = Path(__file__).resolve().parents[3] / "README.md"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cli, Said]:
    cli = Cli(tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("here"))
    return cli, cli("demo")


def rows(said: Said, first: str) -> list[list[str]]:
    return [line.split() for line in said.out.splitlines() if line.split()[:1] == [first]]


def test_honest_policies_succeed_and_the_others_do_not(played: tuple[Cli, Said]) -> None:
    _, said = played
    for policy in ("reconcile", "same_key_retry", "handoff"):
        for row in rows(said, policy):
            assert float(row[3]) == 1.0, row
            assert row[7] == "0", f"a duplicate of {policy}"
    for row in rows(said, "new_id_retry"):
        assert (row[3], row[7], row[8]) == ("0.00", "1", "duplicate_effect")
    for policy in ("claim_success", "do_nothing"):
        for row in rows(said, policy):
            assert row[2:7] == ["0.00", "0.00", "0.00", "0.00", "0"]


def test_each_policy_plays_both_families(played: tuple[Cli, Said]) -> None:
    for policy in ("reconcile", "same_key_retry", "handoff", "new_id_retry", "claim_success", "do_nothing"):
        assert len(rows(played[1], policy)) == 2


def test_a_killed_worker_changes_nothing(played: tuple[Cli, Said]) -> None:
    _, said = played
    assert "killed: yes · same trace digest: yes" in said.out
    assert "each effect once: yes" in said.out


def test_the_retail_world_is_played_by_its_references(played: tuple[Cli, Said]) -> None:
    retail = [line.split() for line in played[1].out.splitlines() if line.startswith("retail/")]
    assert len(retail) >= 5
    assert all(float(row[2]) == 1.0 for row in retail)


def test_code_repair_is_played_by_its_reference_and_by_a_cheat(played: tuple[Cli, Said]) -> None:
    """Or the reason is said why this machine cannot: the demo ends well all the same."""
    _, said = played
    if "skipped: " in said.out:
        assert said.code == 0
        return
    (honest,), (cheat,) = rows(said, "reference"), rows(said, "test_deleter")
    assert (honest[3], honest[6]) == ("1.00", "-")
    assert (cheat[2:6], cheat[6]) == (["0.00"] * 4, "tampering")


def test_the_legend_and_complete_commands_follow(played: tuple[Cli, Said]) -> None:
    _, said = played
    for word in ("C  completion", "P  process", "E  efficiency", "Next:"):
        assert word in said.out
    command = next(line for line in said.out.splitlines() if "episodes show" in line).split("#")[0].split()
    cli, _ = played
    shown = cli(*command[1:])
    assert "duplicate_effect" in shown.out
    cli(*command[1:3], "down")


def test_nothing_is_left_running(played: tuple[Cli, Said]) -> None:
    cli, _ = played
    state = read_state(StackPaths(cli.home / "demo").state)
    assert state is not None
    assert not state.running
    assert not any(alive(one.process) for one in state.processes)


def test_the_readme_shows_what_is_printed(played: tuple[Cli, Said]) -> None:
    """Word for word, the digest aside, which depends on every tool and rule."""
    shown = README.read_text().split("```text\n")[1].split("```")[0]
    if "skipped: " in played[1].out:
        shown = shown.split("code-repair/")[0]
    printed = {without_digest(line) for line in played[1].out.splitlines()}
    assert [line for line in shown.splitlines() if without_digest(line) not in printed] == []


def without_digest(line: str) -> str:
    return line.split(" (sha256:")[0].rstrip()
