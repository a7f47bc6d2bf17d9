"""A sandbox that is made to look around in it."""

import json
from pathlib import Path
from typing import Any

from infra.sandboxes.cgroups import ControlGroups
from infra.sandboxes.stage import Stage
from infra.sandboxes.starting import START_S, StartFailed, begin, finish, last_words
from schemas.sandbox import SandboxLimits

PROBE = Path(__file__).with_name("probe.py")
LIMITS = SandboxLimits()


def look_around(stage: Stage, groups: ControlGroups, folder: Path) -> dict[str, Any]:
    """What a sandbox tells of itself that was made to try. Raises ``StartFailed``, and ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    source = PROBE.read_text()
    program = [str(stage.interpreter.program), "-I", "-S", "-c", source]
    begun = begin(stage, groups, LIMITS, folder, lambda control, *_: [*program, str(control)])
    try:
        sandbox = finish(begun)
    finally:
        if begun.volumes:
            begun.volumes.unmount()
    try:
        sandbox.control.settimeout(START_S)
        with sandbox.control.makefile("rb") as told:
            line = told.readline()
    finally:
        sandbox.control.close()
        left = not sandbox.end()
    if left:
        raise StartFailed("a sandbox that was killed did not go")
    if not line:
        raise StartFailed(last_words(folder) or "its Python ended and said nothing")
    found: dict[str, Any] = json.loads(line)
    return found
