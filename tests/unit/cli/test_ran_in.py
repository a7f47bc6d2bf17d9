"""What ``episodes show`` says of the sandbox that an episode ran in."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from infra.stores.database import open_database
from infra.stores.records import SqlRecords
from ops.cli.output import Output
from ops.cli.ran_in import ran_in
from ops.cli.results import show_result
from ops.cli.telling import show_one
from schemas.episode import End, EpisodeResult, Validity
from schemas.evidence import SandboxEvidence
from schemas.sandbox import SandboxPlan
from schemas.sandbox_facts import SandboxFacts
from tiltyard.policies.catalogue import open_script
from tiltyard.suite import shipped
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.trace import Trace, pack
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.registry import worlds
from workers.bootstrap.objects import open_objects
from workers.settings import Settings

DOCKER = SandboxFacts(driver="docker", incarnation=1, image="sha256:617d29405f0f" + "0" * 52)
AGAIN = DOCKER.model_copy(update={"isolation": "reset", "served_before": 2})


async def archived(
    settings: Settings, facts: SandboxFacts, ended: EpisodeResult | None = None, exams: str = ""
) -> None:
    """An episode that has ended, of a task that asks for another image; this is what its sandbox told."""
    plain = shipped().task("replacement/approved/1")
    task = plain.model_copy(update={"sandbox": SandboxPlan(image="data-query")})
    engine = Engine(worlds(), MemoryWorlds())
    played = await rehearse(plain, open_script("reference", plain), engine, name="e")
    evidence = played.model_copy(update={"sandbox": SandboxEvidence(facts=facts)})
    with open_objects(settings) as objects:
        trace = await objects.put(pack(Trace(task, engine.describe(task.world), evidence)))
    ended = ended or result(sandbox=facts.driver, trace=trace, exams=exams)
    with closing(open_database(settings.records_url)) as database:
        await SqlRecords(database).plan([evidence.spec.model_copy(update={"episode_id": "e"})])
        await SqlRecords(database).record(ended)


def result(**more: object) -> EpisodeResult:
    plain = {"episode_id": "e", "task": "t", "policy": "p", "seed": 0, "end": End.SUBMITTED}
    return EpisodeResult.model_validate({**plain, "validity": Validity.VALID, **more})


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (SandboxFacts(driver="bubblewrap", incarnation=1), "bubblewrap"),
        (DOCKER, "docker, image data-query 617d29405f0f, fresh"),
        (AGAIN, "docker, image data-query 617d29405f0f, reset, served 2 before"),
    ],
)
async def test_a_trace_says_what_its_episode_ran_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], facts: SandboxFacts, said: str
) -> None:
    await archived(Settings(home=tmp_path, runtime=tmp_path), facts)
    await show_one(tmp_path, "e", Output(as_json=False))
    assert f"\nsandbox {said}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ended", "said"),
    [(result(), ""), (result(sandbox="docker"), "docker")],
    ids=["no sandbox", "no trace"],
)
def test_without_a_trace_the_driver_is_known(ended: EpisodeResult, said: str) -> None:
    assert ran_in(ended, None) == said


def test_the_sandbox_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    show_result(Output(as_json=False), result(sandbox="docker"), sandbox="docker, image base 617d29405f0f, fresh")
    assert "\nsandbox docker, image base 617d29405f0f, fresh\n" in capsys.readouterr().out
    show_result(Output(as_json=False), result(sandbox="docker"))
    assert "\nsandbox docker\n" in capsys.readouterr().out
    show_result(Output(as_json=False), result())
    assert "sandbox" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (result(end=End.ENVIRONMENT_ERROR, reason="no world"), "no facts could be collected"),
        (result(trace="sha256:" + "0" * 64), "trace sha256:000"),
    ],
    ids=["no trace", "a trace that is gone"],
)
async def test_an_outcome_stands_without_its_story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ended: EpisodeResult, why: str
) -> None:
    await archived(
        Settings(home=tmp_path, runtime=tmp_path), SandboxFacts(driver="bubblewrap", incarnation=1), ended
    )
    await show_one(tmp_path, "e", Output(as_json=False))
    said = capsys.readouterr()
    assert "episode e\n" in said.out
    assert "turns\n" not in said.out
    assert "no story: " in said.err
    assert why in said.err
    await show_one(tmp_path, "e", Output(as_json=True))
    assert json.loads(capsys.readouterr().out)["story"] is None
