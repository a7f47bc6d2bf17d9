"""What is told of episodes that no worker can go on with."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from infra.stores.database import open_database
from infra.stores.records import SqlRecords
from ops.cli.check import Check
from ops.cli.stranded import janitor, janitor_of, stranded, told, versions, versions_of
from schemas.episode import EpisodeSpec, PolicySpec
from schemas.task import Limits
from schemas.upgrade import Stranded
from schemas.upkeep import UpkeepSummary
from workers.settings import Settings


def waiting(number: int, waited_s: float = 60) -> tuple[Stranded, ...]:
    return tuple(
        Stranded(episode_id=f"e-{at}", version="abc", reason="a timer in its place", waited_s=waited_s)
        for at in range(number)
    )


def spec() -> EpisodeSpec:
    policy = PolicySpec(target="honest")
    return EpisodeSpec(
        episode_id="e-0", task_id="t/1", task_digest="sha256:0", world="tally", policy=policy, limits=Limits()
    )


def settings(home: Path) -> Settings:
    return Settings(home=home, runtime=home, stranded=timedelta(hours=1))


def test_one_is_named_with_its_reason_and_the_time_that_it_has_left(tmp_path: Path) -> None:
    said = told(settings(tmp_path), waiting(1))
    assert said == (
        "1 episode cannot go on with this code, and no worker has theirs (version abc): e-0; a timer in its place; "
        "the first is ended in 0:59:00"
    )


def test_of_many_some_are_named_and_all_are_counted(tmp_path: Path) -> None:
    said = told(settings(tmp_path), waiting(7))
    assert said.startswith("7 episodes cannot go on")
    assert "e-4, …;" in said
    assert "e-5" not in said


def test_one_whose_time_is_over_has_none_left(tmp_path: Path) -> None:
    assert told(settings(tmp_path), waiting(1, waited_s=9_999)).endswith("is ended in 0:00:00")


def test_without_a_stack_there_is_nothing_to_tell(tmp_path: Path) -> None:
    assert stranded(settings(tmp_path)) == ()
    assert (versions(settings(tmp_path)).detail, janitor(settings(tmp_path)).detail) == (
        "no episode is open",
        "not running",
    )


async def test_of_an_open_episode_nothing_is_known_without_a_stack(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/records.db")
    await SqlRecords(database).plan([spec()])
    database.close()
    found = await asyncio.to_thread(versions, settings(tmp_path))
    assert (found.ok, found.verdict, found.detail) == (True, "unknown", "not known: no stack is running")


@pytest.mark.parametrize("told_of", [versions_of, janitor_of])
def test_without_a_pass_nothing_is_known(tmp_path: Path, told_of: Callable[..., Check]) -> None:
    found = told_of(settings(tmp_path), None)
    assert (found.ok, found.verdict) == (True, "unknown")
    assert "not known: no pass of the janitor has told anything lately" in found.detail


def test_a_pass_that_did_all_knows(tmp_path: Path) -> None:
    found = [told_of(settings(tmp_path), UpkeepSummary()).verdict for told_of in (versions_of, janitor_of)]
    assert found == ["ok", "ok"]


def test_what_a_pass_could_not_do_is_a_problem_and_leaves_versions_unknown(tmp_path: Path) -> None:
    last = UpkeepSummary(problems=("the host b: no answer", "versions: no answer"))
    found = janitor_of(settings(tmp_path), last)
    assert (found.ok, "the host b: no answer; versions: no answer" in found.detail) == (False, True)
    assert "every 15 s" in found.fix
    assert versions_of(settings(tmp_path), last).verdict == "unknown"


def test_those_that_wait_are_a_problem_whatever_else_a_pass_could_not_do(tmp_path: Path) -> None:
    last = UpkeepSummary(stranded=waiting(1), problems=("the host b: no answer",))
    found = versions_of(settings(tmp_path), last)
    assert (found.ok, "e-0" in found.detail) == (False, True)


def test_of_many_problems_some_are_told(tmp_path: Path) -> None:
    last = UpkeepSummary(problems=tuple(f"problem {number}" for number in range(7)))
    detail = janitor_of(settings(tmp_path), last).detail
    assert "problem 4; and 2 more" in detail
    assert "problem 5" not in detail
