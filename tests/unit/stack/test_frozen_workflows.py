"""A worker runs workflows by the code that it started with, whatever is installed meanwhile."""

import subprocess
import sys
from pathlib import Path

FROZEN = "from pathlib import Path; from workers.frozen import freeze; freeze('tale', Path({root!r}))\n"

LOADS_TWICE = """
import importlib, sys
from pathlib import Path

def told():
    for name in [name for name in sys.modules if name.partition(".")[0] == "tale"]:
        del sys.modules[name]
    return importlib.import_module("tale.told").WORD

first = told()
Path({root!r}, "tale", "word.py").write_text("WORD = 'second edition'")
importlib.invalidate_caches()
print(first, "/", told(), "/", sys.modules["tale.told"].__file__)
"""


def words(root: Path, before: str) -> str:
    (root / "tale").mkdir(parents=True)
    (root / "tale" / "__init__.py").write_text("")
    (root / "tale" / "word.py").write_text("WORD = 'first'")
    (root / "tale" / "told.py").write_text("from tale.word import WORD")
    program = before.format(root=str(root)) + f"import sys; sys.path.insert(0, {str(root)!r})\n"
    program += LOADS_TWICE.format(root=str(root))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_modules_that_are_loaded_anew_are_those_of_the_start(tmp_path: Path) -> None:
    assert words(tmp_path / "frozen", FROZEN) == f"first / first / {tmp_path}/frozen/tale/told.py"


def test_without_that_they_are_those_of_now(tmp_path: Path) -> None:
    assert words(tmp_path / "read", "").startswith("first / second edition / ")


def test_the_worker_freezes_all_workflows() -> None:
    program = """
import importlib, sys
from workers.worker import freeze_workflows
freeze_workflows()
for name in [name for name in sys.modules if name.partition(".")[0] == "workflows"]:
    del sys.modules[name]
importlib.import_module("workflows.episode")
print({type(one.__spec__.loader).__name__ for name, one in sys.modules.items() if name.startswith("workflows")})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{'FrozenModules'}"
