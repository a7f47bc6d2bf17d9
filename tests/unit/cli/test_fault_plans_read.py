"""Files for ``fork --faults``: what holds no fault plan is told with how to write one."""

from pathlib import Path

import pytest

from ops.cli.failures import WRONG_USE
from ops.cli.main import run_program


@pytest.mark.parametrize("text", ["null", "[]", "{}", "family: mine", "faults: none"])
def test_what_is_advised_is_of_a_fault_plan(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    arguments = ["--home", str(tmp_path / "home"), "fork", "e", "--turn", "0", "--faults", str(file)]
    assert run_program(arguments) == WRONG_USE
    said = capsys.readouterr().err
    assert f"{file}: " in said
    assert "to mend it: write faults: and a list, as in a task file" in said
