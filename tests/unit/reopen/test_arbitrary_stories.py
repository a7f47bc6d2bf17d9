"""Stories of arbitrary facts and turns: they never raise, and nothing in them reaches a terminal as it is (I11)."""

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from ops.cli.apart import apart_lines, why_lines
from ops.cli.folded import folded
from ops.cli.story_shown import story_lines
from ops.cli.turn_in_full import full_lines
from schemas.base import canonical
from schemas.episode import End, EpisodeSpec, PolicySpec
from schemas.evidence import Evidence
from schemas.exam import Exam, Exams, TestReport, TestRun
from schemas.journal import TurnRecord
from schemas.slice import Ending
from schemas.world import DrainReport, Facts
from tests.unit.graders.story import TOOLS
from tests.unit.graders.test_arbitrary import FACTS, IDS, TASK, TURN, some
from tiltyard.episode.grading import examine
from tiltyard.reopen.apart import apart
from tiltyard.reopen.story import tell, turn_in_full
from tiltyard.trace import Trace

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
TESTS = st.sampled_from(["a", "b"])
RUN = st.builds(
    TestRun,
    expected=some(TESTS),
    reports=some(st.builds(TestReport, test=TESTS, outcome=st.sampled_from(["passed", "failed"]))),
    exit_code=st.none() | st.integers(0, 1),
    finished=st.booleans(),
)
EXAMS = st.builds(Exams, exams=some(st.builds(Exam, contract=st.integers(0, 9), visible=RUN, hidden=RUN)))
READINGS = st.dictionaries(IDS, st.sampled_from(["committed", "absent", "unknown"]), max_size=3)


def trace_of(facts: Facts, turns: tuple[TurnRecord, ...], end: End, readings: dict[str, Any]) -> Trace:
    spec = EpisodeSpec(
        episode_id="e",
        task_id=TASK.id,
        task_digest="",
        world=TASK.world,
        policy=PolicySpec(target="any"),
        limits=TASK.limits,
    )
    evidence = Evidence(
        spec=spec, ending=Ending.of(end), turns=turns, facts=facts, drain=DrainReport(), in_flight=readings
    )
    return Trace(TASK, TOOLS, evidence)


@settings(max_examples=40, deadline=None)
@given(
    facts=FACTS,
    turns=some(TURN),
    others=some(TURN),
    end=st.sampled_from(End),
    readings=READINGS,
    exams=EXAMS,
    width=st.none() | st.integers(30, 120),
)
def test_any_story_can_be_told(
    facts: Facts,
    turns: tuple[TurnRecord, ...],
    others: tuple[TurnRecord, ...],
    end: End,
    readings: dict[str, Any],
    exams: Exams,
    width: int | None,
) -> None:
    trace, other = trace_of(facts, turns, end, readings), trace_of(facts, others, end, {})
    result = examine(TASK, trace.evidence, TOOLS, exams)
    story = tell(trace, result, exams)
    apart_from = apart(trace, result, other, result)
    lines = [*story_lines(story, result), *apart_lines(apart_from), *why_lines(apart_from)]
    for turn in turns:
        full = turn_in_full(trace, turn.turn)
        lines += full_lines(full)
        canonical(full)
    canonical(story)
    for line in folded(lines, width):
        assert not CONTROL.search(line)
        assert width is None or cell_len(line) <= width or "episodes show e --turn N" in line
