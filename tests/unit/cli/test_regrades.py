"""``tiltyard regrade`` of many: one after another, each told when it is done, and one that cannot be read spoils
no other."""

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest

from infra.stores.database import open_database
from infra.stores.objects import FolderObjects
from infra.stores.records import SqlRecords
from ops.cli.failures import DONE, FAILED, WRONG_USE
from ops.cli.folded import folded
from ops.cli.main import run_program
from ops.cli.output import Output
from ops.cli.progress import counting
from ops.cli.regrades import regraded
from ops.cli.regrades_shown import lines_of
from schemas.episode import EpisodeResult
from schemas.regrade import Fact, Judgement, Regrade
from tiltyard.episode.grading import examine
from tiltyard.episode.tasks import TaskShelf
from tiltyard.policies.catalogue import open_script
from tiltyard.ports import Objects, Records
from tiltyard.suite import shipped
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_records import MemoryRecords
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace, pack
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds
from workers.settings import Settings

TASK = shipped().task("replacement/approved/1")


async def played(records: Records, objects: Objects, *names: str) -> list[EpisodeResult]:
    """Episodes that have ended, in the order of their planning."""
    engine, results = Engine(worlds(), MemoryWorlds()), []
    await TaskShelf(objects).store(TASK)
    for seed, name in enumerate(names):
        evidence = await rehearse(TASK, open_script("reference", TASK), engine, name=name, seed=seed)
        tools = engine.describe(TASK.world)
        trace = await objects.put(pack(Trace(TASK, tools, evidence)))
        result = examine(TASK, evidence, tools).model_copy(update={"trace": trace})
        await records.plan([evidence.spec])
        results.append(await records.record(result))
    return results


async def at_home(home: Path, *names: str) -> list[EpisodeResult]:
    settings = Settings.from_environment(home)
    with closing(open_database(settings.records_url)) as database:
        return await played(SqlRecords(database), FolderObjects(home / "objects"), *names)


async def call(home: Path, *words: str) -> int:
    return await asyncio.to_thread(run_program, ["--home", str(home), "regrade", *words])


def spoil(home: Path, result: EpisodeResult, how: str) -> None:
    """Its trace is gone, or is there and cannot be read for now."""
    file = FolderObjects(home / "objects").path(result.trace)
    file.unlink()
    if how == "unreachable":
        file.mkdir()


@pytest.mark.parametrize(("how", "exit_code"), [("gone", WRONG_USE), ("unreachable", FAILED)])
async def test_one_that_cannot_be_read_spoils_no_other(
    how: str, exit_code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, _ = await at_home(tmp_path, "e-1", "e-2", "e-3")
    spoil(tmp_path, second, how)
    for words in (("--all",), ("e-*",), ("e-3", "e-2", "e-1")):
        assert await call(tmp_path, *words, "--json") == exit_code, words
        said = capsys.readouterr()
        assert [json.loads(line)["episode_id"] for line in said.out.splitlines()] == ["e-3", "e-1"], words
        assert second.trace in said.err
    spoil(tmp_path, first, "unreachable")
    assert await call(tmp_path, "--all") == FAILED, "the graver of two"
    assert "nothing moved" in capsys.readouterr().out, "the one that is left"


async def test_each_is_told_before_the_next_one_is_read() -> None:
    """So that what is kept in memory does not grow with the number of episodes."""
    records, objects = MemoryRecords(), MemoryObjects()
    results = await played(records, objects, "e-1", "e-2")
    del objects.contents[results[1].trace]
    found = regraded(["e-1", "e-2"], records, objects, None)
    one = await anext(found)
    assert isinstance(one, Regrade)
    assert one.episode_id == "e-1"
    assert not isinstance(await anext(found), Regrade)
    with pytest.raises(StopAsyncIteration):
        await anext(found)


async def test_by_which_task_it_was_judged_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await at_home(tmp_path, "e-1", "e-2")
    place = tmp_path / "replacement" / "approved.json"
    place.parent.mkdir()
    fields = {**TASK.model_dump(mode="json", exclude={"id"}), "family": "approved", "variants": {"1": {}}}
    fields["weights"] = {"completion": 0.5, "process": 0.3, "efficiency": 0.2}
    place.write_text(json.dumps(fields))
    assert await call(tmp_path, "e-1") == DONE
    assert f"by task {TASK.digest[:19]}…, the same now" in capsys.readouterr().out
    assert await call(tmp_path, "e-1", "--tasks", str(place.parent)) == DONE
    assert f"by task {TASK.digest[:19]}… then, sha256:" in capsys.readouterr().out
    assert await call(tmp_path, "--all", "--tasks", str(place.parent)) == DONE
    assert "another task" in capsys.readouterr().out
    assert await call(tmp_path, "e-1", "--tasks", str(place.parent), "--json") == DONE
    told = json.loads(capsys.readouterr().out)
    assert told["before"]["task"] == TASK.digest != told["after"]["task"]


def of_facts(*facts: Fact) -> Regrade:
    result = EpisodeResult.model_validate(
        {
            "episode_id": "e-1",
            "task": TASK.id,
            "policy": "reconcile",
            "seed": 0,
            "end": "submitted",
            "validity": "valid",
        }
    )
    judged = Judgement.of(result)
    return Regrade(
        **{name: getattr(result, name) for name in ("episode_id", "task", "policy", "seed")},
        before=judged.model_copy(update={"graders": "sha256:" + "0" * 64, "task": TASK.digest}),
        after=judged.model_copy(update={"graders": "sha256:" + "1" * 64, "task": TASK.digest}),
        facts=facts,
        untold=("rule",),
    )


REASON = "outcome 'replaced': stock/aria-7 was not updated as expected; the nearest change: available is 3, not 4"
FACTS = (
    Fact(part="score", name="process", before=("1",), after=("1",)),
    Fact(part="score", name="total", before=("0.039474",), after=("0.047368",)),
    Fact(part="contract", name="settled", before=("passed",), after=("passed",)),
    Fact(
        part="contract",
        name="state",
        before=("failed", REASON, "a"),
        after=("failed", "a", REASON.replace("3", "2")),
    ),
    Fact(part="safety", name="duplicate_effect", before=(), after=("it took effect again",)),
)


def test_of_one_what_moved_comes_first_and_what_did_not_is_counted() -> None:
    assert list(folded(lines_of(of_facts(*FACTS)), None)) == [
        "episode e-1",
        "task    replacement/approved/1, policy reconcile, seed 0",
        f"graders sha256:{'0' * 12}… then, sha256:{'1' * 12}… now",
        f"by task {TASK.digest[:19]}…, the same now",
        "moved",
        "  score total: 0.039474 → 0.047368",
        "  contract state: failed",
        f"    - {REASON}",
        f"    + {REASON.replace('3', '2')}",
        "  safety duplicate_effect: none → it took effect again",
        "the same: 2 facts",
        "not recorded then, so not compared: rule",
    ]
    assert list(folded(lines_of(of_facts(FACTS[0])), None))[4] == "nothing moved: 1 fact is the same"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_regrade_is_no_wider_than_the_terminal(width: int) -> None:
    told = list(folded(lines_of(of_facts(*FACTS)), width))
    assert max(map(len, told)) <= width
    assert sum(line.startswith("    - ") for line in told) == 1


def test_of_many_it_is_told_how_far_it_has_come(capsys: pytest.CaptureFixture[str]) -> None:
    with counting(Output(as_json=False), 250, "graded again") as tell:
        for done in range(1, 251):
            tell(done)
    assert capsys.readouterr().err.splitlines() == ["100 of 250 graded again", "200 of 250 graded again"]
