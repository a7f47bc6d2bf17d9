"""What tables, lists and lines of results say of each trial."""

from collections.abc import Sequence
from typing import Any

import pytest

from ops.cli.looking import COLUMNS as LISTED
from ops.cli.looking import listed, state_of
from ops.cli.output import Output, fitting
from ops.cli.progress import ended_line
from ops.cli.results import COLUMNS, SPARE, cells, show_result, show_results
from ops.cli.watching import phase_of, status_line
from schemas.episode import End, EpisodeResult, EpisodeSpec, PolicySpec, Validity
from schemas.grade import RiskEvent, SafetyFinding
from schemas.status import EpisodeStatus, Failing
from schemas.task import Limits, Task
from tests.unit.cli.terminal import answers_on

TASK = Task.model_validate(
    {
        "id": "retail/found/plain",
        "world": "retail",
        "instruction": "Look.",
        "contracts": [{"kind": "process", "rules": [{"rule": "require", "call": {"tool": "get_user_details"}}]}],
        "references": [{"steps": [{"submit": {}}]}],
    }
)
SPEC = EpisodeSpec(
    episode_id="e-1",
    task_id=TASK.id,
    task_digest="",
    world="retail",
    policy=PolicySpec(target="p"),
    limits=Limits(),
    sandbox="unsafe-local",
)
NEVER = TASK.model_copy(update={"id": "retail/found/never", "metadata": {"unscorable": "nothing to judge by"}})
APART = TASK.model_copy(update={"id": "retail/found/idle", "metadata": {"idle_passes": True}})


def trial(number: int = 1, *rules: str, task: Task = TASK, **more: Any) -> EpisodeResult:
    return EpisodeResult(
        **{
            "episode_id": f"e-{number}",
            "task": task.id,
            "policy": "p",
            "seed": number,
            "end": End.SUBMITTED,
            "validity": Validity.VALID,
            "risks": tuple(RiskEvent(rule=rule, tier=3, detail="why") for rule in rules),
            **more,
        }
    )


def shown(capsys: pytest.CaptureFixture[str], results: Sequence[EpisodeResult]) -> str:
    show_results(Output(as_json=False), results, (TASK, NEVER, APART))
    return capsys.readouterr().out


def row(said: str, number: int) -> str:
    return next(line for line in said.splitlines() if line.startswith("retail/") and f"e-{number}" in line)


def test_risks_of_several_trials_are_shown_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown(capsys, [trial(1), trial(2, "tampering", "tampering", "forged_exit"), trial(3, "tampering")])
    assert "RISK" in said
    assert "forged_exit, tampering" in row(said, 2)
    assert "tampering" not in row(said, 1)
    assert "risks: tampering in 2 trials, forged_exit in 1 trial" in said
    assert "episodes show e-2" in said, "the first one that is worth a look"


def test_without_risks_there_is_no_column_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown(capsys, [trial(1), trial(2)])
    assert "risk" not in said.lower()
    assert "episodes show e-1" in said


def test_risks_stay_when_a_terminal_is_narrow() -> None:
    heads, rows = fitting(*cells([trial(1, "tampering"), trial(2)], COLUMNS), SPARE, 80)
    assert "RISK" in heads
    assert "tampering" in rows[0]


def test_what_has_no_room_is_named_and_safety_is_told_below(monkeypatch: pytest.MonkeyPatch) -> None:
    safety = (SafetyFinding(kind="duplicate_effect", detail="again"),)
    results = [trial(1, policy="new_id_retry"), trial(2, policy="new_id_retry", safety=safety)]
    for columns, left_out in ((80, True), (200, False)):
        terminal = answers_on(monkeypatch, columns)
        show_results(Output(as_json=False), results, (TASK, NEVER, APART))
        monkeypatch.undo()
        said = terminal.said()
        assert "safety: duplicate_effect in 1 trial" in said
        assert ("left out for want of room: POLICY, C, P, E, EFFECTS, DRAIN (--json has them)" in said) == left_out
        assert ("left out" in said) == left_out


def test_trials_that_were_not_isolated_are_marked_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown(capsys, [trial(1, sandbox="unsafe-local"), trial(2, sandbox="bubblewrap")])
    assert "unsafe-local" in row(said, 1)
    assert "unsafe-local" not in row(said, 2)
    assert "1 of 2 trials ran unsafe-local: not isolated from this machine" in said
    assert "submitted (unsafe-local)" in ended_line(trial(sandbox="unsafe-local"))
    show_result(Output(as_json=False), trial(sandbox="unsafe-local"))
    assert "not isolated" in capsys.readouterr().out


def test_the_line_of_an_end_says_what_is_worth_a_look() -> None:
    assert "risk forged_exit, tampering" in ended_line(trial(1, "tampering", "forged_exit"))
    assert "risk" not in ended_line(trial())
    assert "submitted (environment)" in ended_line(trial(validity=Validity.ENVIRONMENT))


def test_rows_that_do_not_count_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown(capsys, [trial(1), trial(2, task=NEVER), trial(3, task=APART)])
    assert [mark in row(said, 2) for mark in ("not counted", "apart")] == [True, False]
    assert "(apart)" in row(said, 3)
    assert "(" not in row(said, 1)
    alone = shown(capsys, [trial(2, task=NEVER)])
    assert "submitted (not counted)" in alone


def test_lists_say_what_isolated_a_trial_and_its_risks() -> None:
    ended = trial(1, "tampering", sandbox="unsafe-local")
    assert state_of(SPEC, ended, None) == "submitted (unsafe-local)"
    assert state_of(SPEC, None, None) == "open (unsafe-local)"
    told = listed(SPEC, ended, None)
    assert (told["sandbox"], told["risks"]) == ("unsafe-local", ["tampering"])
    assert (listed(SPEC, None, None)["sandbox"], listed(SPEC, None, None)["risks"]) == ("unsafe-local", [])
    assert "RISK" in LISTED


def test_a_step_that_fails_is_said_wherever_an_open_episode_is_shown() -> None:
    why = Failing(step="provision", attempt=4, why="the image x cannot be pulled: no such host")
    status = EpisodeStatus(episode_id="e-1", phase="leasing", failing=(why,))
    assert "failing: provision, attempt 4: the image x cannot be pulled: no such host" in status_line(status)
    assert state_of(SPEC, None, status) == "running, failing (unsafe-local)"
    assert listed(SPEC, None, status)["failing"] == [why.model_dump()]
    assert phase_of(status.model_copy(update={"paused": True})) == "leasing, pausing, failing"
    held = status.model_copy(update={"phase": "paused", "paused": True, "failing": ()})
    assert state_of(SPEC, None, held) == "paused (unsafe-local)"
