"""A version of the workflows' code changes with what a replay depends on, and with nothing else."""

from importlib.metadata import version
from pathlib import Path

import pytest

from workers.builds import DIGITS, build_id
from workers.histories import told
from workers.versions import deployment_version

WORKFLOW = "from activities.steps import Steps\nfrom schemas.start import Start\n"
STEPS = """
from schemas.told import Told

PASSED_ON = "passed on"
"A remark."
LIMIT: int = 3

class Steps:
    @activity.defn
    async def step(self, told: Told) -> int:
        return 1

    @activity.defn(name="leap")
    async def jump(self, told: Told) -> float:
        return 2

    @activity.defn
    def walk(self, far: str) -> bytes: ...
"""
FILES = {
    "workflows/one.py": WORKFLOW,
    "activities/steps.py": STEPS,
    "schemas/start.py": "from schemas.base import Model\n",
    "schemas/base.py": "class Model: ...\n",
    "schemas/told.py": "class Told: ...\n",
    "schemas/other.py": "class Other: ...\n",
    "tiltyard/domain.py": "x = 1\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("workflows/one.py", "Start", "Start as Begin"),
        ("schemas/start.py", "Model", "Model as Base"),
        ("schemas/base.py", "...", "x: int"),
        ("schemas/told.py", "...", "x: int"),
        ("activities/steps.py", "-> int", "-> str"),
        ("activities/steps.py", "def step", "def stride"),
        ("activities/steps.py", "step(self, told: Told", "step(self, told: Told, more: int"),
        ("activities/steps.py", "-> float", "-> str"),
        ("activities/steps.py", '"leap"', '"bound"'),
        ("activities/steps.py", "-> bytes", "-> str"),
        ("activities/steps.py", '"passed on"', '"refused"'),
        ("activities/steps.py", "= 3", "= 4"),
    ],
)
def test_what_a_replay_depends_on_changes_it(root: Path, file: str, old: str, new: str) -> None:
    before = build_id(root)
    path = root / file
    path.write_text(path.read_text().replace(old, new))
    assert build_id(root) != before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("activities/steps.py", "return 1", "return 2"),
        ("activities/steps.py", "A remark", "Another remark"),
        ("schemas/other.py", "...", "x: int"),
        ("tiltyard/domain.py", "1", "2"),
    ],
)
def test_what_it_does_not_depend_on_changes_nothing(root: Path, file: str, old: str, new: str) -> None:
    before = build_id(root)
    path = root / file
    path.write_text(path.read_text().replace(old, new))
    assert build_id(root) == before


def test_a_workflow_that_is_added_changes_it(root: Path) -> None:
    before = build_id(root)
    (root / "workflows/two.py").write_text("")
    assert build_id(root) != before


def test_another_release_of_the_sdk_is_another_version(root: Path) -> None:
    assert len({build_id(root, sdk=release) for release in ("1.0", "1.1")}) == 2
    assert build_id(root) == build_id(root, sdk=version("temporalio"))


def test_the_projects_own_can_be_told() -> None:
    assert len(build_id()) == DIGITS
    assert build_id() == build_id()


def test_queues_that_differ_have_deployments_that_differ() -> None:
    names = [deployment_version(queue, "b").deployment_name for queue in ("a-b", "a.b", "a..b", "a")]
    assert len(set(names)) == len(names)
    assert not [name for name in names if "." in name]


MISMATCH = "Activity type of scheduled event 'run_slice' does not match activity type of activity command 'close'"

NONDETERMINISM = (
    'Workflow activation completion failed: Failure { failure: Some(Failure { message: "[TMPRL1100] '
    f'Nondeterminism error: {MISMATCH}", '
    'source: "", stack_trace: "  File \\"/home/me/x.py\\", line 1", cause: None }), force_cause: X }'
)

UNREADABLE = (
    'RuntimeError: Failure { failure: Some(Failure { message: "Failed decoding arguments", source: "", cause: '
    'Some(Failure { message: "1 validation error for LeaseRef\\nnonsense\\n  Extra inputs are not permitted '
    '[type=extra_forbidden, input_value=1]\\n    For further information visit https://example.org/v/extra", '
    'source: "" }) }) }'
)


def test_a_failed_replay_says_what_does_not_match() -> None:
    assert told(NONDETERMINISM) == MISMATCH


def test_a_failed_replay_says_what_cannot_be_read() -> None:
    said = told(UNREADABLE)
    assert said.startswith("Failed decoding arguments: 1 validation error for LeaseRef nonsense")
    assert "http" not in said


def test_a_failure_of_another_form_is_told_as_it_is() -> None:
    assert told("something else") == "something else"
