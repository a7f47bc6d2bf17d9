"""A fork whose first turns another task played: whoever plays all of it by its own is told why it does not hold."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from infra.stores.database import open_database
from infra.stores.records import SqlRecords
from ops.cli.failures import WRONG_USE
from ops.cli.main import run_program
from schemas.episode import EpisodeSpec, Origin
from tests.unit.reopen.played import graded, played
from tiltyard.reopen.kept_turns import of_another
from tiltyard.testing.memory_records import MemoryRecords
from tiltyard.trace import Trace, pack
from workers.bootstrap.objects import open_objects
from workers.settings import Settings

LOST, AFTER = "replacement/reply-lost/1", 5
"""The reply is lost in the turn before."""


def spec(name: str, *, of: str = "", turn: int = 0, **own: object) -> EpisodeSpec:
    plain = played(LOST, "new_id_retry")[0].evidence.spec
    origin = Origin(kind="fork", episode_id=of, turn=turn) if of else None
    return plain.model_copy(update={"episode_id": name, "origin": origin, **own})


def fork_without_faults() -> Trace:
    """A fork of ``parent`` by a task that has no faults: the turns that it has of it lost a reply."""
    trace, _ = played(LOST, "new_id_retry")
    task = trace.task.model_copy(update={"faults": ()})
    own = spec("fork", of="parent", turn=AFTER, task_digest=task.digest)
    return Trace(task, trace.tools, trace.evidence.model_copy(update={"spec": own}))


async def recorded(home: Path, fork: Trace, parent: EpisodeSpec) -> None:
    settings = Settings.from_environment(home)
    with open_objects(settings) as objects:
        kept = await objects.put(pack(fork))
    with closing(open_database(settings.records_url)) as database:
        await SqlRecords(database).plan([parent, fork.evidence.spec])
        await SqlRecords(database).record(graded(fork).model_copy(update={"trace": kept}))


def test_a_pin_of_such_a_fork_is_refused_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(recorded(tmp_path, fork_without_faults(), spec("parent")))
    assert run_program(["--home", str(tmp_path), "episodes", "pin", "fork"]) == WRONG_USE
    said = capsys.readouterr().err
    assert "it first goes another way at turn 4" in said
    assert "to mend it: its first 5 turns are those of parent, which has another task or seed" in said
    assert "replay" not in said


def advice(*specs: EpisodeSpec) -> str:
    async def ask() -> str:
        records = MemoryRecords()
        await records.plan(specs)
        return await of_another(specs[-1], records)

    return asyncio.run(ask())


def test_it_is_said_of_every_way_to_have_turns_of_another_and_of_no_other() -> None:
    root, again = spec("root"), spec("again", of="root", turn=5)
    other = spec("other", of="root", turn=5, task_digest="sha256:other")
    assert advice(root) == advice(root, again) == ""
    assert advice(root, spec("f", of="again")) == "", "it has none of its turns"
    assert advice(root, other).startswith("its first 5 turns are those of root, ")
    assert advice(root, spec("f", of="root", turn=1, seed=99)).startswith("its first turn is that of root, ")
    later = spec("f", of="other", turn=7, task_digest="sha256:other")
    assert advice(root, other, later).startswith("its first 5 turns are those of root, ")
    sooner = spec("f", of="other", turn=2, task_digest="sha256:other")
    assert advice(root, other, sooner).startswith("its first 2 turns are those of root, ")
