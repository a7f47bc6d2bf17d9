"""Forks, replays and the probes of minimise beside the runs of which they were made: in lists, and in what a glob
takes in."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from infra.stores.database import open_database
from infra.stores.records import SqlRecords
from ops.cli.looking import COLUMNS, SPARE, show_list
from ops.cli.output import Output, fitting
from ops.cli.regrades import chosen
from schemas.episode import EpisodeSpec, Origin
from tests.unit.cli.test_results_shown import SPEC, trial
from tiltyard.errors import BadInput
from tiltyard.testing.memory_records import MemoryRecords
from workers.settings import Settings


def spec(name: str, kind: str = "", policy: str = "p") -> EpisodeSpec:
    origin = {"kind": kind, "episode_id": "e-run", "turn": 0} if kind else None
    return SPEC.model_copy(
        update={
            "episode_id": name,
            "origin": Origin.model_validate(origin) if origin else None,
            "policy": SPEC.policy.model_copy(update={"target": policy}),
            "sandbox": None,
        }
    )


SPECS = (
    spec("e-run"),
    spec("e-fork", "fork"),
    spec("e-replay", "replay", "recorded"),
    *(spec(f"e-probe{number}", "probe", "recorded") for number in range(120)),
)


async def at_home(home: Path, *specs: EpisodeSpec) -> None:
    with closing(open_database(Settings.from_environment(home).records_url)) as database:
        await SqlRecords(database).plan(specs)


def rows(said: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split() for line in said.splitlines()[1:]}


async def test_a_list_says_what_an_episode_was_made_as(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await at_home(tmp_path, *SPECS[:3])
    await show_list(tmp_path, 50, Output(as_json=False))
    said = capsys.readouterr()
    assert said.out.splitlines()[0].split() == ["EPISODE", "TASK", "POLICY", "ORIGIN", "SEED", "STATE", "SCORE"]
    assert {name: row[3] for name, row in rows(said.out).items()} == {
        "e-run": "-",
        "e-fork": "fork",
        "e-replay": "replay",
    }
    assert said.err == ""


async def test_where_all_are_runs_there_is_no_such_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await at_home(tmp_path, *SPECS[:1])
    await show_list(tmp_path, 50, Output(as_json=False))
    assert "ORIGIN" not in capsys.readouterr().out


async def test_probes_are_listed_only_where_they_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shrinking plays hundreds of them, and they are the newest: the limit is one of what is shown."""
    await at_home(tmp_path, *SPECS)
    await show_list(tmp_path, 2, Output(as_json=False))
    said = capsys.readouterr()
    assert list(rows(said.out)) == ["e-replay", "e-fork"]
    assert "left out: 120 probes of `episodes minimise`, which --probes lists" in said.err
    await show_list(tmp_path, 2, Output(as_json=False), probes=True)
    said = capsys.readouterr()
    assert list(rows(said.out)) == ["e-probe119", "e-probe118"]
    assert said.err == ""


async def test_the_origin_is_in_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await at_home(tmp_path, *SPECS[:2])
    await show_list(tmp_path, 50, Output(as_json=True))
    fork, run = map(json.loads, capsys.readouterr().out.splitlines())
    assert (fork["origin"], run["origin"]) == ({"kind": "fork", "episode_id": "e-run", "turn": 0}, None)


def test_on_a_narrow_terminal_the_policy_stays_before_the_seed() -> None:
    row = ("e-8i67x44wn5", "replacement/reply-lost/1", "new_id_retry", "fork", "0", "submitted", "0.04")
    heads, _ = fitting(COLUMNS[:-1], [row], SPARE, 80)
    assert heads == ["EPISODE", "TASK", "POLICY", "ORIGIN", "STATE", "#SCORE"]


async def test_all_and_globs_take_in_neither_replays_nor_probes(capsys: pytest.CaptureFixture[str]) -> None:
    records = MemoryRecords()
    await records.plan(SPECS[:4])
    for one in SPECS[:4]:
        await records.record(trial().model_copy(update={"episode_id": one.episode_id, "trace": "sha256:1"}))
    out = Output(as_json=False)
    for name in ("*", "e-*", SPEC.task_id):
        assert await chosen(records, [name], out) == ["e-fork", "e-run"], name
        assert "left out, as replays or probes of minimise: 2; name them" in capsys.readouterr().err
    assert await chosen(records, ["e-replay", "e-probe0"], out) == ["e-replay", "e-probe0"]
    assert capsys.readouterr().err == ""
    assert await chosen(records, ["e-replay*"], out) == [], "there is one, and it is left out"
    with pytest.raises(BadInput, match="there is no such episode"):
        await chosen(records, ["e-nobody*"], out)
