"""A fork says what it has other than its parent, and where its script begins: in its result, and in `show`."""

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest

from infra.stores.database import open_database
from infra.stores.records import SqlRecords
from ops.cli.made_from import Made, made_from, origin_lines
from ops.cli.main import run_program
from ops.cli.output import Output
from ops.cli.results import show_results
from schemas.episode import EpisodeResult, Origin, PolicySpec
from schemas.replay import Differing
from tests.unit.reopen.played import graded, played
from tiltyard.episode.tasks import TaskShelf
from tiltyard.reopen.changing import changed
from tiltyard.testing.memory_records import MemoryRecords
from tiltyard.trace import Trace, pack
from workers.bootstrap.objects import open_objects
from workers.settings import Settings

TRACE = played("replacement/reply-lost/1", "unapproved_write")[0]
TASK = TRACE.task
OTHER = changed(TASK, instruction="Do as you please.", limits={"turns": 60})
ORIGIN = Origin(kind="fork", episode_id="parent", turn=2)


def fork(name: str = "fork", seed: int = 0) -> Trace:
    spec = TRACE.evidence.spec.model_copy(
        update={
            "episode_id": name,
            "seed": seed,
            "origin": ORIGIN,
            "policy": PolicySpec(target="reconcile"),
            "task_digest": OTHER.digest,
        }
    )
    return Trace(OTHER, TRACE.tools, TRACE.evidence.model_copy(update={"spec": spec}))


def result_of(trace: Trace) -> EpisodeResult:
    return graded(trace).model_copy(update={"policy": "reconcile", "origin": ORIGIN})


async def recorded(home: Path, *, ended: bool = True) -> None:
    settings, trace = Settings.from_environment(home), fork()
    with open_objects(settings) as objects:
        kept = await objects.put(pack(trace))
        await TaskShelf(objects).store(OTHER)
        parent = TRACE.evidence.spec.model_copy(
            update={
                "episode_id": "parent",
                "policy": PolicySpec(target="unapproved_write"),
                "task_digest": await TaskShelf(objects).store(TASK),
            }
        )
    with closing(open_database(settings.records_url)) as database:
        await SqlRecords(database).plan([parent, trace.evidence.spec])
        if not ended:
            return
        await SqlRecords(database).record(result_of(trace).model_copy(update={"trace": kept}))


def test_show_tells_what_a_fork_changed_below_its_origin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(recorded(tmp_path))
    assert run_program(["--home", str(tmp_path), "episodes", "show", "fork"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("origin  fork of parent before turn 2")
    assert lines[at + 1] == "differs policy: unapproved_write -> reconcile"
    assert lines[at + 2].startswith("differs instruction: ")
    assert lines[at + 2].endswith("-> Do as you please.")
    assert lines[at + 3] == f"differs limits.turns: {TASK.limits.turns} -> 60"
    assert lines[at + 4] == "script  reconcile begins at turn 2 and knows nothing of turns 0 to 1"
    assert run_program(["--home", str(tmp_path), "episodes", "show", "fork", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["what"] for one in told["differs"]] == ["policy", "instruction", "limits.turns"]
    assert told["script_begins"] == 2


def test_of_one_that_has_not_ended_it_is_told_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(recorded(tmp_path, ended=False))
    assert run_program(["--home", str(tmp_path), "episodes", "show", "fork"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("origin  fork of parent before turn 2")
    assert lines[0].startswith("fork: open")
    assert lines[at + 1] == "differs policy: unapproved_write -> reconcile"
    assert lines[at + 3] == f"differs limits.turns: {TASK.limits.turns} -> 60"
    assert run_program(["--home", str(tmp_path), "episodes", "show", "fork", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["origin"] == ORIGIN.model_dump()
    assert [one["what"] for one in told["differs"]] == ["policy", "instruction", "limits.turns"]


async def test_an_episode_that_was_made_from_no_other_tells_nothing() -> None:
    spec = TRACE.evidence.spec
    records = MemoryRecords()
    await records.plan([spec])
    with open_objects(Settings(home=Path("/nonexistent"), runtime=Path("/nonexistent"))) as objects:
        made = await made_from(spec, TASK, records, objects, TRACE)
    assert made == Made()
    assert origin_lines(None, "reconcile", made) == []


MADE = Made(
    differs=(
        Differing(what="policy", left="a", right="reconcile"),
        Differing(what="seed", left="0", right="1"),
        Differing(what="limits.turns", left="40", right="60"),
    ),
    script_begins=1,
)


def test_of_one_turn_it_is_said_as_of_one() -> None:
    assert (
        origin_lines(ORIGIN, "reconcile", MADE)[-1]
        == "script  reconcile begins at turn 1 and knows nothing of turn 0"
    )


def test_of_several_forks_what_they_share_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    results = [result_of(fork(f"e-{seed}", seed)) for seed in (1, 2)]
    show_results(Output(as_json=False), results, [OTHER], MADE)
    said = capsys.readouterr().out
    assert said.count("origin  fork of parent before turn 2\ndiffers policy") == 1
    assert said.count("differs limits.turns: 40 -> 60") == 1
    assert said.count("script  reconcile begins at turn 1") == 1
    assert "differs seed" not in said, "that has a column"
    show_results(Output(as_json=False), results[:1], [OTHER], MADE)
    assert "\ndiffers seed: 0 -> 1\n" in capsys.readouterr().out
