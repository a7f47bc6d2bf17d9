"""Commands that are printed can be typed as they stand: program, data folder and quotes included."""

import asyncio
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.cli.called import call_on, command_line, typeable
from ops.cli.failures import report
from ops.cli.output import Output
from ops.cli.trials import Order
from schemas.episode import EpisodeSpec, PolicySpec
from schemas.task import Limits
from tiltyard.errors import BadInput


@pytest.fixture(autouse=True)
def called(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "argv", ["my env/bin/tiltyard", "run"])
    call_on(None)
    yield
    call_on(None)


def test_the_program_is_named_as_it_was_called() -> None:
    assert command_line("down") == "'my env/bin/tiltyard' down"


def test_a_program_on_the_path_needs_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tiltyard"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert command_line("run", "retail/*") == "tiltyard run 'retail/*'"


def test_a_module_that_is_run_names_the_program_of_its_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/ops/bench/__main__.py"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert shlex.split(command_line("down"))[0] == str(Path(sys.executable).with_name("tiltyard"))


def test_the_data_folder_is_named_where_it_was_given() -> None:
    call_on(Path("a folder"))
    assert shlex.split(command_line("episodes", "show", "e-1"))[1:] == [
        *("--home", "a folder"),
        *("episodes", "show", "e-1"),
    ]


def test_messages_of_other_layers_name_commands_that_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    call_on(Path("/data"))
    typed = "`'my env/bin/tiltyard' --home /data down` ends it"
    assert typeable("`tiltyard down` ends it") == typed
    Output(as_json=False).note("`tiltyard down` ends it")
    report(BadInput("no", fix="`tiltyard down` ends it"))
    assert capsys.readouterr().err.count(typed) == 2


def test_threads_name_the_same_data_folder() -> None:
    call_on(Path("/data"))
    assert "--home /data" in asyncio.run(in_thread())


async def in_thread() -> str:
    return await asyncio.to_thread(command_line, "down")


def trial(task: str, seed: int) -> EpisodeSpec:
    return EpisodeSpec(
        episode_id=f"e-{task}-{seed}",
        task_id=task,
        task_digest="",
        world="w",
        policy=PolicySpec(target="p"),
        seed=seed,
        limits=Limits(),
    )


def test_trials_that_were_not_started_are_asked_for_by_as_few_commands_as_it_takes() -> None:
    order = Order((), PolicySpec(target="exec:./my agent"), (), 2, options=("--policy", "exec:./my agent"))
    left = [trial("w/a/1", 2), *(trial(task, seed) for task in ("w/b/1", "w/c/1") for seed in (0, 1, 2))]
    same = ["--policy", "exec:./my agent", "--seed"]
    assert [shlex.split(one)[1:] for one in order.again(left)] == [
        ["run", "w/a/1", *same, "2", "--repeat", "1"],
        ["run", "w/b/1", "w/c/1", *same, "0", "--repeat", "3"],
    ]
