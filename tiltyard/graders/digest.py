"""The digest of the graders: what grades by other rules differs in it (I12)."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import schemas.contract
import schemas.exam
import schemas.grade
from schemas.base import digest_of, sha256


@cache
def graders_digest() -> str:
    """Digest of the source of every grader and rule, and of the models of contracts, exams and grades."""
    return digest_of_files({file.name: file.read_bytes() for file in grader_files()})


def grader_files() -> tuple[Path, ...]:
    """The files that decide how an episode is graded."""
    modules = (schemas.contract, schemas.exam, schemas.grade)
    models = [Path(module.__file__) for module in modules if module.__file__]
    return (*sorted(Path(__file__).parent.glob("*.py")), *models)


def digest_of_files(files: Mapping[str, bytes]) -> str:
    """Digest of sources by name; how lines end does not matter."""
    return digest_of({name: sha256(source.replace(b"\r\n", b"\n")) for name, source in files.items()})
