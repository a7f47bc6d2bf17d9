"""Means of trials: what counts together, apart, and not at all."""

from typing import Any

import pytest

from ops.cli.counting import means, told
from ops.cli.output import Output
from ops.cli.results import show_results
from ops.cli.run import verdict
from schemas.episode import End, EpisodeResult, Validity
from schemas.grade import Score
from schemas.task import Task
from tiltyard.suite.standing import Standing


def task(name: str, **metadata: Any) -> Task:
    rule = {"rule": "require", "call": {"tool": "get_user_details"}}
    return Task.model_validate(
        {
            "id": f"retail/found/{name}",
            "world": "retail",
            "instruction": "Look.",
            "contracts": [{"kind": "process", "rules": [rule]}],
            "references": [{"steps": [{"submit": {}}]}],
            "metadata": metadata,
        }
    )


PLAIN, OTHER = task("plain"), task("other")
IDLE = task("idle", idle_passes=True)
NEVER = task("never", unscorable="nothing to judge by")
TASKS = (PLAIN, OTHER, IDLE, NEVER)


def trials(**totals: float) -> tuple[EpisodeResult, ...]:
    return tuple(
        EpisodeResult(
            episode_id=f"e-{name}",
            task=f"retail/found/{name}",
            policy="p",
            seed=0,
            end=End.SUBMITTED,
            validity=Validity.VALID,
            score=Score(total=total),
        )
        for name, total in totals.items()
    )


def test_each_standing_has_its_own_mean() -> None:
    found = means(trials(plain=1, other=0.5, idle=0.2, never=0), TASKS)
    assert found == {Standing.COUNTED: (2, 0.75), Standing.IDLE_PASSES: (1, 0.2), Standing.UNSCORABLE: (1, 0)}
    assert list(told(found)) == [
        "mean score of 2 trials: 0.750",
        "counted apart (doing nothing passes such tasks at their source): mean score of 1 trial: 0.200",
        "not counted: 1 trial of tasks that cannot be judged",
    ]


@pytest.mark.parametrize(
    ("totals", "code"),
    [
        ({"plain": 1, "other": 0.5}, 0),
        ({"plain": 1, "other": 0.4}, 1),
        ({"plain": 1, "never": 0}, 0),
        ({"never": 0}, 0),
        ({"plain": 1, "idle": 0.5}, 1),
        ({"plain": 0.5, "idle": 1}, 1),
        ({"idle": 1}, 0),
        ({}, 0),
    ],
)
def test_each_mean_must_reach_what_was_asked_for(totals: dict[str, float], code: int) -> None:
    assert verdict(trials(**totals), TASKS, 0.75, Output(as_json=True)) == code
    assert verdict(trials(**totals), TASKS, None, Output(as_json=True)) == 0


def test_a_single_trial_that_does_not_count_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_results(Output(as_json=False), trials(never=0), TASKS)
    assert "not counted" in capsys.readouterr().out
    show_results(Output(as_json=False), trials(plain=1), TASKS)
    assert "mean" not in capsys.readouterr().out
