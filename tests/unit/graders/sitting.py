"""The exam runner as a plain process over a folder: what a driver does with it, less the sandbox."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from schemas.base import canonical
from schemas.exam import TestRun
from schemas.operation import ExecResult, Output
from tiltyard.episode.examination import PYTHON, read_run
from tiltyard.graders import exam_runner

NONCE = "n-0123"
SOURCE = Path(exam_runner.__file__).read_text()


def sit(folder: Path, files: Mapping[str, str | bytes], tests: tuple[str, ...]) -> TestRun:
    """Run the tests on these files, in a folder of their own."""
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    done = subprocess.run(
        [sys.executable, *PYTHON[1:], SOURCE],
        cwd=folder,
        input=canonical({"nonce": NONCE, "tests": tests}),
        capture_output=True,
        timeout=60,
    )
    result = ExecResult(exit_code=done.returncode, stdout=Output(text=done.stdout.decode()))
    return read_run(tests, NONCE, result)
