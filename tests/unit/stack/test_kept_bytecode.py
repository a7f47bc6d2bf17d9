"""A worker keeps the compiled modules of workflows, also where Python is told to write none."""

import os
import subprocess
import sys
from pathlib import Path

LOADS = "import sys; from pathlib import Path; from workers.worker import keep_bytecode; {keep}import tale"


def bytecode_after(keep: str, folder: Path, modules: Path) -> list[str]:
    """The compiled files below ``folder`` after a module was loaded in a Python that is to write none."""
    modules.joinpath("tale.py").write_text("WORD = 1\n")
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(modules)}
    subprocess.run([sys.executable, "-c", LOADS.format(keep=keep)], env=environment, check=True)
    assert [file.name for file in modules.iterdir()] == ["tale.py"], "nothing is written beside the sources"
    return [file.name.partition(".")[0] for file in folder.rglob("*.pyc")]


def test_compiled_modules_are_kept_in_their_folder(tmp_path: Path) -> None:
    folder, modules = tmp_path / "bytecode", tmp_path / "modules"
    modules.mkdir()
    assert bytecode_after("", folder, modules) == []
    assert bytecode_after(f"keep_bytecode(Path({str(folder)!r})); ", folder, modules) == ["tale"]
