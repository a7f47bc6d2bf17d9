"""Examinations over the port: fresh sandboxes, always given back, and never a lost outcome."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from schemas.episode import End, EpisodeResult, Validity
from schemas.exam import Exams
from schemas.operation import SandboxReply, SandboxRequest
from schemas.sandbox import SandboxOrder, SandboxRef, Snapshot
from schemas.slice import GradeRequest
from schemas.task import Task
from schemas.world import Owner
from tiltyard.episode.examination import Examination, Sitting
from tiltyard.episode.grading import EXAM_ATTEMPTS, Examiner
from tiltyard.errors import (
    EnvironmentFailed,
    GraderFailed,
    SandboxLost,
    SandboxOutOfMemory,
    SandboxUnavailable,
    SandboxUnreachable,
)
from tiltyard.policies.catalogue import open_script
from tiltyard.sandbox.files import start_of
from tiltyard.testing.memory_files import MemoryFiles
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_records import MemoryRecords
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.testing.tally_world import TALLY
from tiltyard.trace import Trace, pack
from tiltyard.worlds.engine import Engine

TEST = "class TestIt:\n    def test_{}(self): ...\n"
TASK = Task.model_validate(
    {
        "id": "tally/code/1",
        "world": "tally",
        "instruction": "Mend it.",
        "sandbox": {"files": {"a.py": "broken", "tests/test_a.py": TEST.format("a")}},
        "contracts": [
            {"kind": "tests", "sources": ["*.py"], "hidden_files": {"hidden_tests/test_b.py": TEST.format("b")}}
        ],
        "references": [
            {
                "steps": [
                    {"tool": "write_file", "arguments": {"path": "a.py", "content": "mended"}},
                    {"submit": {}},
                ]
            }
        ],
    }
)
OWNER = Owner(cluster="c", temporal_namespace="t", workflow_id="w", first_run_id="")
SITTING = Sitting("episode-1", "bubblewrap", OWNER)


def python3(argv: Sequence[str], stdin: bytes, files: MemoryFiles) -> tuple[int, str]:
    """What the exam runner would print: every test passes when the source is mended."""
    plan = json.loads(stdin)
    outcome = "passed" if files.read("a.py") == b"mended" else "failed"
    lines = [{"test": test, "outcome": outcome} for test in plan["tests"]] + [{"end": True, "patched": []}]
    return int(outcome != "passed"), "".join(f"{plan['nonce']} {json.dumps(line)}\n" for line in lines)


class Watched(MemorySandboxes):
    """Remembers what was ordered; ``fail`` is raised in the place of an answer, ``times`` times."""

    def __init__(self) -> None:
        super().__init__(programs={"python3": python3})
        self.orders: list[SandboxOrder] = []
        self.fail: Callable[[], Exception] | None = None
        self.at = "call"
        self.times = 10**6

    def _failing(self, at: str) -> None:
        if self.fail is not None and self.at == at and self.times:
            self.times -= 1
            raise self.fail()

    async def provision(self, order: SandboxOrder) -> SandboxRef:
        self.orders.append(order)
        self._failing("provision")
        return await super().provision(order)

    async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
        if sandbox.name.startswith("exam/"):
            self._failing("call")
        return await super().call(sandbox, request)


def left(**contents: str) -> Snapshot:
    plan = TASK.sandbox
    assert plan is not None
    return start_of(plan.model_copy(update={"files": {**plan.files, **contents}}))


MENDED, UNTOUCHED = left(**{"a.py": "mended"}), left()


async def test_each_run_has_a_fresh_sandbox_and_only_the_second_has_the_hidden_tests() -> None:
    sandboxes = Watched()
    (exam,) = (await Examination(sandboxes).hold(TASK, MENDED, SITTING)).exams
    assert exam.visible.passed
    assert exam.hidden.passed
    assert exam.visible.expected == ("tests.test_a.TestIt.test_a",)
    assert exam.hidden.expected == ("hidden_tests.test_b.TestIt.test_b",)
    visible, hidden = sandboxes.orders
    assert [entry.path for entry in visible.start.entries] == ["a.py", "tests/test_a.py"]
    assert [entry.path for entry in hidden.start.entries] == ["a.py", "hidden_tests/test_b.py", "tests/test_a.py"]
    assert visible.name != hidden.name
    assert {order.owner for order in sandboxes.orders} == {OWNER}
    assert await sandboxes.sandboxes() == ()


async def test_what_the_tests_say_of_unmended_sources() -> None:
    (exam,) = (await Examination(Watched()).hold(TASK, UNTOUCHED, SITTING)).exams
    assert not exam.visible.passed
    assert not exam.hidden.passed


@pytest.mark.parametrize("at", ["provision", "call"])
@pytest.mark.parametrize("error", [SandboxLost, SandboxUnavailable, SandboxUnreachable])
async def test_a_sandbox_that_fails_is_the_environments_and_leaves_none_behind(
    at: str, error: type[Exception]
) -> None:
    sandboxes = Watched()
    sandboxes.at, sandboxes.fail = at, lambda: error("gone")
    with pytest.raises(EnvironmentFailed) as caught:
        await Examination(sandboxes).hold(TASK, MENDED, SITTING)
    assert not isinstance(caught.value, SandboxLost | SandboxUnavailable)  # those are never tried again
    assert await sandboxes.sandboxes() == ()


async def test_code_that_has_its_run_killed_for_memory_has_failed_it_and_leaves_none_behind() -> None:
    sandboxes = Watched()
    sandboxes.fail, sandboxes.times = lambda: SandboxOutOfMemory("its memory is full"), 1
    (exam,) = (await Examination(sandboxes).hold(TASK, MENDED, SITTING)).exams
    assert (exam.visible.passed, exam.visible.out_of_memory, exam.hidden.passed) == (False, True, True)
    assert await sandboxes.sandboxes() == ()
    assert [order.name[-8:] for order in sandboxes.orders] == ["/visible", "0/hidden"], "it was tried again"


async def test_a_later_attempt_takes_the_place_of_one_that_was_killed() -> None:
    """Its sandbox is still there, and so it would be for ever."""
    sandboxes = Watched()
    await Examination(sandboxes).hold(TASK, MENDED, SITTING)
    await sandboxes.provision(sandboxes.orders[0].model_copy(update={"incarnation": 2}))  # and its worker dies
    sitting = Sitting("episode-1", "bubblewrap", OWNER, attempt=3)
    assert (await Examination(sandboxes).hold(TASK, MENDED, sitting)).exams[0].visible.passed
    assert await sandboxes.sandboxes() == ()


async def test_a_sandbox_without_python_is_the_environments() -> None:
    class Bare(Watched):
        async def call(self, sandbox: SandboxRef, request: SandboxRequest) -> SandboxReply:
            return SandboxReply(op_id=request.op_id, code="cannot_start", message="no python3")

    with pytest.raises(EnvironmentFailed, match="no python3"):
        await Examination(Bare()).hold(TASK, MENDED, SITTING)


async def test_a_task_whose_tests_cannot_be_read_fails_its_grader() -> None:
    contract = TASK.contracts[0].model_copy(update={"hidden_files": {"hidden_tests/test_b.py": "def ("}})
    with pytest.raises(GraderFailed, match=r"hidden_tests/test_b\.py"):
        await Examination(Watched()).hold(TASK.model_copy(update={"contracts": (contract,)}), MENDED, SITTING)


class Graded:
    """An episode that was played and is to be graded."""

    def __init__(self, sandboxes: Watched, script: str = "reference") -> None:
        self.sandboxes, self.script = sandboxes, script
        self.objects, self.records = MemoryObjects(), MemoryRecords()
        self.examiner = Examiner(self.objects, self.records, sandboxes, "c", "t")

    async def play(self, **ending: Any) -> "Graded":
        engine = Engine({"tally": TALLY}, MemoryWorlds())
        policy = open_script(self.script, TASK)
        evidence = await rehearse(TASK, policy, engine, sandboxes=self.sandboxes, objects=self.objects)
        evidence = evidence.model_copy(update={"ending": evidence.ending.model_copy(update=ending)})
        await self.records.plan([evidence.spec])
        trace = await self.objects.put(pack(Trace(TASK, engine.describe("tally"), evidence)))
        self.request = GradeRequest(spec=evidence.spec, ending=evidence.ending, trace=trace)
        self.sandboxes.orders.clear()
        return self

    async def grade(self, attempt: int = 1) -> EpisodeResult:
        await self.examiner.grade(self.request, "episode/1", attempt)
        found = await self.records.result(self.request.spec.episode_id)
        assert found is not None
        return found


async def test_an_outcome_names_what_its_tests_said() -> None:
    graded = await Graded(Watched()).play()
    result = await graded.grade()
    assert (result.score.completion, result.validity) == (1, Validity.VALID)
    exams = Exams.model_validate_json(await graded.objects.get(result.exams))
    assert exams.exams[0].hidden.passed
    assert result.contracts[0].kind == "tests"


async def test_whoever_writes_nothing_passes_no_test() -> None:
    graded = await Graded(Watched(), "do_nothing").play()
    result = await graded.grade()
    assert (result.score.completion, result.validity, result.risks) == (0, Validity.VALID, ())


async def test_the_environment_is_given_time_and_then_the_outcome_says_so() -> None:
    graded = await Graded(Watched()).play()
    graded.sandboxes.fail = lambda: SandboxUnavailable("no slot")
    for attempt in range(1, EXAM_ATTEMPTS):
        with pytest.raises(EnvironmentFailed):
            await graded.grade(attempt)
    result = await graded.grade(EXAM_ATTEMPTS)
    assert (result.validity, result.score.total) == (Validity.GRADER, 0)
    assert "no slot" in result.reason


async def test_an_environment_that_comes_back_changes_nothing() -> None:
    undisturbed = await (await Graded(Watched()).play()).grade()
    graded = await Graded(Watched()).play()
    graded.sandboxes.fail, graded.sandboxes.times = (lambda: SandboxLost("gone")), 1
    with pytest.raises(EnvironmentFailed):
        await graded.grade(1)
    result = await graded.grade(2)
    assert (result.score, result.digests, result.exams) == (
        undisturbed.score,
        undisturbed.digests,
        undisturbed.exams,
    )


@pytest.mark.parametrize("end", [End.CANCELLED, End.ENVIRONMENT_ERROR])
async def test_a_trial_that_says_nothing_about_the_policy_is_not_examined(end: End) -> None:
    graded = await Graded(Watched()).play(end=end)
    result = await graded.grade()
    assert graded.sandboxes.orders == []
    assert (result.score.completion, result.exams) == (0, "")


async def test_the_agents_sandbox_never_holds_a_hidden_test() -> None:
    """I9: neither a path nor a word of one is in what it begins with."""
    sandboxes, engine = Watched(), Engine({"tally": TALLY}, MemoryWorlds())
    await rehearse(TASK, open_script("reference", TASK), engine, sandboxes=sandboxes)
    (own,) = sandboxes.orders
    files = {entry.path: entry.content for entry in own.start.entries}
    assert sorted(files) == ["a.py", "tests/test_a.py"]
    assert not any(b"test_b" in (content or b"") for content in files.values())
