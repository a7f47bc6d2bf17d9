"""The files of an examination: the task's own, and of the agent's those that a contract names as sources.

What the agent left is data. It decides what is written into the fresh sandbox, and nothing else of that sandbox.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from schemas.base import sha256
from schemas.contract import TestsContract
from schemas.sandbox import FileEntry, SandboxPlan, Snapshot
from tiltyard.errors import BadInput

MAX_SOURCES = 1000
"""Files that are taken of the agent's."""

MAX_SOURCE_BYTES = 4 * 2**20
"""What they may hold together: a flood of them must not keep an examination from being made."""

COMPILED = (".pyc", ".pyo")

TEST_FILES = "test*.py"
"""What unittest takes for a file of tests."""


@dataclass(frozen=True)
class ExamFiles:
    """``files`` are contents by path; ``refused`` are paths of sources that could not be taken."""

    files: Mapping[str, bytes]
    refused: tuple[str, ...] = ()

    def laid_over(self, texts: Mapping[str, str]) -> "ExamFiles":
        """These files with others laid over them."""
        return ExamFiles({**self.files, **{path: text.encode() for path, text in texts.items()}}, self.refused)

    def start(self) -> Snapshot:
        """What the fresh sandbox begins with."""
        return Snapshot(
            entries=tuple(
                FileEntry(path=path, size=len(data), digest=sha256(data), content=data)
                for path, data in sorted(self.files.items())
            )
        )


def matches(path: str, globs: Sequence[str]) -> bool:
    """Whether a path fits one of the globs; ``*`` stands for any characters, ``/`` included."""
    return any(fnmatchcase(path, glob) for glob in globs)


def within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def is_source(contract: TestsContract, path: str) -> bool:
    """Whether a file at ``path`` is the agent's to change: never a test, nor a compiled file."""
    of_tests = path in contract.hidden_files or within(path, contract.visible) or within(path, contract.hidden)
    compiled = path.endswith(COMPILED) or "__pycache__" in PurePosixPath(path).parts
    return not of_tests and not compiled and matches(path, contract.sources)


def exam_files(plan: SandboxPlan, contract: TestsContract, left: Snapshot) -> ExamFiles:
    """The files for the visible run. ``left`` is the drained sandbox with all its contents."""
    own = {path: text.encode() for path, text in plan.files.items() if not is_source(contract, path)}
    fixed = own.keys() | contract.hidden_files.keys()
    taken: dict[str, bytes] = {}
    refused, room = [], MAX_SOURCE_BYTES
    for entry in left.entries:
        if not is_source(contract, entry.path):
            continue
        whole = entry.kind == "file" and entry.content is not None and not _in_the_way(entry.path, fixed)
        if whole and entry.size <= room and len(taken) < MAX_SOURCES:
            taken[entry.path] = entry.content or b""
            room -= entry.size
        elif entry.kind != "directory" or entry.path in plan.files:
            refused.append(entry.path)
    return ExamFiles({**own, **taken}, tuple(refused))


def _in_the_way(path: str, fixed: set[str]) -> bool:
    """Whether a file here would stand where one of the task's needs a folder, or below one of its files."""
    above = {str(parent) for parent in PurePosixPath(path).parents}
    return bool(above & fixed) or any(one.startswith(f"{path}/") for one in fixed)


def expected_tests(files: Mapping[str, str], folder: str) -> tuple[str, ...]:
    """Ids of the tests in a folder's files, as unittest writes them, without running anything.

    A test is a method ``test*`` of a class at the top of a file ``test*.py``. Raises ``BadInput`` for a file that
    is no Python.
    """
    return tuple(
        f"{path.removesuffix('.py').replace('/', '.')}.{name}"
        for path, text in sorted(files.items())
        if within(path, folder) and fnmatchcase(PurePosixPath(path).name, TEST_FILES)
        for name in _tests_in(path, text)
    )


def _tests_in(path: str, text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BadInput(f"is no Python: {error}", field=path) from None
    for case in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for method in (node for node in case.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            if method.name.startswith("test"):
                yield f"{case.name}.{method.name}"
