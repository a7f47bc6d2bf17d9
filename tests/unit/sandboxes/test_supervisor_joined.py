"""The supervisor as one file: it has what its modules have, and a module that would not fit in is refused."""

import ast
import gc
import importlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from infra.sandboxes import compiled
from infra.sandboxes.joined import FOLDER, PACKAGE, NotJoinable, joined
from infra.sandboxes.judging import OLDEST

MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


@pytest.fixture(scope="module")
def whole() -> ModuleType:
    """The joined file as a module, which does not start anything."""
    module = ModuleType("supervisor")
    exec(compile(joined(), "supervisor.py", "exec", dont_inherit=True), module.__dict__)
    return module


def names(of: ModuleType) -> set[str]:
    """What it defines and what it imports, without what Python gives each module."""
    return {name for name in vars(of) if not name.startswith("__")} - {"TYPE_CHECKING", "annotations"}


def test_what_is_joined_has_the_names_of_all_modules_and_no_other(whole: ModuleType) -> None:
    modules = [importlib.import_module(f"{PACKAGE}.{name}") for name in MODULES]
    assert names(whole) == set().union(*map(names, modules))


def test_each_class_and_function_is_the_same(whole: ModuleType) -> None:
    """As text, with comments and all: whoever looks at one has looked at the other."""
    source, told = joined(), 0
    for name in MODULES:
        text = (FOLDER / f"{name}.py").read_text()
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign | ast.Try):
                part = ast.get_source_segment(text, node)
                assert part is not None
                assert part in source or part == "TYPE_CHECKING = False", part
                told += 1
    assert told > 100


def test_its_syntax_is_that_of_the_oldest_python_of_an_image() -> None:
    ast.parse(joined(), feature_version=OLDEST)


def test_it_imports_the_library_alone() -> None:
    imports = [node for node in ast.walk(ast.parse(joined())) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [ast.unparse(node) for node in imports if "infra" in ast.unparse(node)]


@pytest.mark.parametrize("made", ["source", "compiled"])
def test_it_runs_by_itself(made: str, tmp_path: Path) -> None:
    python = Path(sys.executable)
    write = compiled.write_supervisor if made == "source" else lambda to: compiled.compile_supervisor(python, to)
    program = write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [program.name], "nothing else is left there"
    ended = subprocess.run([python, "-I", "-S", program, "77", "78"], cwd=tmp_path, capture_output=True, text=True)
    assert "OSError: [Errno 9]" in ended.stderr, "it has no journal"
    named = tmp_path / "supervisor.py" if made == "source" else "/opt/supervisor/supervisor.py"
    assert f'"{named}"' in ended.stderr


@pytest.mark.parametrize(
    ("script", "why"), [("exit 3", "it ended with 3"), ("echo a; echo bad luck >&2; exit 1", "bad luck")]
)
def test_a_python_that_does_not_compile_it_is_named_with_its_words(script: str, why: str, tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    with pytest.raises(compiled.NotCompiled, match=f"{python} did not compile the supervisor: {why}"):
        compiled.compile_supervisor(python, tmp_path)


FITS = {
    "low": '"""Low."""\n\nimport os\n\nVALUE = os.sep\n',
    "high": f'"""High."""\n\nimport os\n\nfrom {PACKAGE}.low import VALUE\n\nMORE = VALUE + os.sep  # kept\n',
    "__main__": f'"""It."""\n\nfrom {PACKAGE}.high import MORE\n\nif __name__ == "__main__":\n    print(MORE)\n',
    "__init__": '"""All."""\n',
}


def package(folder: Path, **changes: str) -> Path:
    for name, text in {**FITS, **changes}.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_modules_stand_after_those_that_they_import(tmp_path: Path) -> None:
    text = joined(package(tmp_path))
    assert text.count("import ") == 2, "the future, and os once"
    assert (
        text.index("VALUE = os.sep\n") < text.index("MORE = VALUE + os.sep  # kept\n") < text.index("print(MORE)")
    )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"high": f"from {PACKAGE}.low import VALUE as V\n"}, "import the standard library, or at the top"),
        ({"high": f"from {PACKAGE}.low import *\n"}, "import the standard library, or at the top"),
        ({"high": "from os import *\n"}, "import the standard library, or at the top"),
        ({"high": f"import {PACKAGE}.low\n"}, "import the standard library, or at the top"),
        ({"high": f"from {PACKAGE} import low\n"}, "import the standard library, or at the top"),
        ({"high": "from .low import VALUE\n"}, "import the standard library, or at the top"),
        ({"high": "import pydantic\n"}, "import the standard library, or at the top"),
        ({"high": "from schemas.base import sha256\n"}, "import the standard library, or at the top"),
        (
            {"high": f"def f():\n    from {PACKAGE}.low import VALUE\n"},
            "import the standard library, or at the top",
        ),
        ({"high": f"try:\n    X = 1\nfinally:\n    from {PACKAGE}.low import VALUE\n"}, "or at the top"),
        ({"high": f"X = 1\nfrom {PACKAGE}.low import VALUE\n"}, "import the standard library, or at the top"),
        (
            {"high": f"TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from {PACKAGE}.low import VALUE\n"},
            "import the standard library, or at the top",
        ),
        ({"high": f"from {PACKAGE}.low import VALUE; X = 1\n"}, "code beside an import"),
        ({"high": f"from {PACKAGE}.nowhere import VALUE\n"}, "there is no module nowhere"),
        ({"low": f"from {PACKAGE}.high import MORE\n"}, "modules import each other"),
        ({"low": f"from {PACKAGE}.__main__ import main\n"}, "modules import each other"),
        ({"high": "VALUE = 2\n"}, "VALUE is in"),
        ({"high": "def VALUE(): ...\n"}, "VALUE is in"),
        ({"high": "try:\n    import VALUE\nexcept ImportError:\n    import os\n"}, "standard library"),
        ({"high": "try:\n    import json as VALUE\nexcept ImportError:\n    pass\n"}, "VALUE is in"),
        ({"high": "import json as os\n"}, "os is in"),
        ({"high": "os = 1\n"}, "os is in"),
        ({"high": "def open(): ...\n"}, "open is in high and in Python itself"),
    ],
    ids=str,
)
def test_what_would_mean_something_else_in_one_file_is_refused(
    changes: dict[str, str], why: str, tmp_path: Path
) -> None:
    with pytest.raises(NotJoinable, match=why):
        joined(package(tmp_path, **changes))


def test_what_the_oldest_python_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        joined(package(tmp_path, high="match 1:\n    case 1:\n        X = 1\n"))


def test_threads_join_at_the_same_time() -> None:
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _: joined(), range(24)))) == 1


def test_what_garbage_runs_may_parse_too() -> None:
    """The log of an error does, when a task is collected that nobody waited for."""

    def parse(phase: str, _: object) -> None:
        with suppress(SystemError):
            ast.parse("f(x)[1] + 2")

    times = gc.get_threshold()
    gc.set_threshold(300)
    gc.callbacks.append(parse)
    try:
        found = joined()
    finally:
        gc.callbacks.remove(parse)
        gc.set_threshold(*times)
    assert found == joined()
