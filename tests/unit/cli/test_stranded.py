"""What is told of episodes that no worker can go on with."""

from datetime import timedelta
from pathlib import Path

from ops.cli.stranded import stranded, told, versions
from schemas.upgrade import Stranded
from workers.settings import Settings


def waiting(number: int, waited_s: float = 60) -> tuple[Stranded, ...]:
    return tuple(
        Stranded(episode_id=f"e-{at}", version="abc", reason="a timer in its place", waited_s=waited_s)
        for at in range(number)
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
    assert versions(settings(tmp_path)).ok
