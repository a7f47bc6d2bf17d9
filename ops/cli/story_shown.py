"""The story of an episode as a person reads it: the facts behind its score, its turns, its end, its phases."""

from collections.abc import Iterator, Sequence
from itertools import islice

from ops.cli.called import command_line
from ops.cli.counting import counted
from ops.cli.folded import Line, section
from ops.cli.processes import lines_of
from ops.cli.turns_shown import change_lines, job_told, turns_lines
from ops.cli.values_shown import BRIEF
from schemas.episode import EpisodeResult, Validity
from schemas.evidence import SandboxEvidence
from schemas.grade import Measure, RuleResult
from schemas.story import ChangeVerdict, PhaseStory, Points, Story
from schemas.world import DrainReport

MOST = 30
"""Lines that a list of the story has; what is more is counted."""

DIMENSIONS = {"tool_calls": "tool calls", "tokens": "tokens", "virtual_s": "virtual seconds"}


def story_lines(story: Story, result: EpisodeResult) -> Iterator[Line]:
    """All of it, under headings."""
    if story.points is not None and (story.turns or result.validity is Validity.VALID):
        yield from section("points", points_lines(story.points, result))
    yield from section("turns", _turns(story))
    yield from section("after the turns", after_lines(story, result))
    if story.sandbox is not None:
        yield from section("files", _files(story.sandbox))
        yield from section("programs", _programs(story.sandbox, story.episode_id))
    yield from section("phases", phases_lines(story.phases, result))


def so_far_lines(story: Story) -> Iterator[Line]:
    """The turns of an episode that runs."""
    yield from section("turns so far", turns_lines(story.turns))


def _turns(story: Story) -> Iterator[Line]:
    yield from turns_lines(story.turns)
    if story.turns:
        yield Line("")
        yield Line("one in full:")
        yield Line(command_line("episodes", "show", story.episode_id, "--turn", "N"), whole=True)


def points_lines(points: Points, result: EpisodeResult) -> Iterator[Line]:
    """The score as a sum, and the facts behind each part of it."""
    weights, score = points.weights, result.score
    yield Line(
        f"{score.total:.3f} = {weights.completion:.2f}·{score.completion:.2f} (C) + {weights.process:.2f}·"
        f"{score.process:.2f} (P) + {weights.efficiency:.2f}·{score.efficiency:.2f} (E)"
        + ("; tampering, with a failed contract, has left nothing of it" if points.corrected else ""),
    )
    if not points.as_recorded:
        yield Line("the graders have changed since: what stands below may differ from what was judged then")
    passed = sum(contract.passed for contract in result.contracts)
    yield Line(f"C: {passed} of {counted(len(result.contracts), 'contract')} passed; all must")
    yield from _some([Line(_verdict(change), 2) for change in points.changes], "change")
    for exam in points.exams:
        early = "" if exam.ended_well or exam.passed < exam.expected else ", and the run did not end well"
        yield Line(f"{exam.contract}: {exam.passed} of {exam.expected} {exam.tests} tests passed{early}", 2)
    yield Line(_process(points.rules, result))
    yield from (Line(_rule(rule), 2, hang=4) for rule in points.rules)
    yield Line(_efficiency(points.measures, result))
    yield from (Line(_measure(measure), 2) for measure in points.measures)


def _verdict(change: ChangeVerdict) -> str:
    row = f"{change.collection}/{change.key}"
    if change.missing:
        return f"{row}: NOT {change.change.upper()}; {change.taken_for} demands it"
    taken = change.taken_for or ": ".join(filter(None, ("NOT AS EXPECTED", ", ".join(change.misfits))))
    return f"{row} was {change.change}: {taken}"


def _process(rules: Sequence[RuleResult], result: EpisodeResult) -> str:
    triggered = [rule for rule in rules if rule.triggered]
    held = sum(rule.weight for rule in triggered if rule.held)
    if not result.counts.tool_calls:
        return "P: 0, as no call was made"
    if not triggered:
        return "P: 1, as no rule was triggered"
    weigh = sum(rule.weight for rule in triggered)
    return f"P: the rules that were triggered weigh {weigh:g}; those of them that held weigh {held:g}"


def _rule(rule: RuleResult) -> str:
    state = "not triggered" if not rule.triggered else "held" if rule.held else "NOT HELD"
    why = f": {rule.why}" if rule.triggered and rule.why else ""
    return f"{state}, weight {rule.weight:g}: {rule.rule}{why}"


def _efficiency(measures: Sequence[Measure], result: EpisodeResult) -> str:
    if result.contracts and not all(contract.passed for contract in result.contracts):
        return "E: counts only where all contracts passed"
    return "E: the mean of" if measures else "E: no reference is a measure of it"


def _measure(one: Measure) -> str:
    share = min(1.0, one.reference / one.used) if one.used else 1.0
    what = DIMENSIONS[one.dimension]
    return f"{what}: {one.reference} by the reference, {one.used} used: {share:.2f}"


def after_lines(story: Story, result: EpisodeResult) -> Iterator[Line]:
    """What came after the last turn, and what the drain found and ended."""
    yield from _some([line for change in story.later for line in change_lines(change, 0, BRIEF)], "line")
    yield from _some([Line(job_told(job)) for job in story.jobs if job.state != "done"], "job")
    for late in story.late[:MOST]:
        yield Line(f"late: {late.tool} [{late.delivery_id}] was refused, under generation {late.generation}")
    yield Line(f"drain: {', '.join(_drained(result.drain))}")


def _drained(drain: DrainReport) -> Iterator[str]:
    """All that the report says, but for zeros."""
    found = (
        (drain.jobs_found, "pending job", "found"),
        (drain.jobs_cancelled, "job", "cancelled"),
        (drain.in_flight, "call", "in flight"),
        (drain.late_writes, "late write", "refused"),
        (drain.processes_found, "program", "found running"),
        (drain.ended_by_term, "program", "ended by TERM"),
        (drain.ended_by_kill, "program", "ended by KILL"),
    )
    yield from (f"{counted(number, one)} {what}" for number, one, what in found if number)
    yield "empty afterwards" if drain.empty else "NOT EMPTY afterwards"


def _files(sandbox: SandboxEvidence) -> Iterator[Line]:
    yield from _some([Line(f"{one.path} was {one.change}") for one in sandbox.changes], "file")


def _programs(sandbox: SandboxEvidence, episode_id: str) -> Iterator[Line]:
    """The tree of programs, as far as it is short."""
    lines = [Line(line, hang=24) for line in islice(lines_of(sandbox), MOST + 1)]
    yield from lines[:MOST]
    if len(lines) > MOST:
        yield Line("… all of them:")
        yield Line(command_line("episodes", "show", episode_id, "--processes"), whole=True)


def _some(lines: Sequence[Line], what: str) -> Iterator[Line]:
    yield from lines[:MOST]
    if len(lines) > MOST:
        yield Line(f"… {counted(len(lines) - MOST, what)} more")


def phases_lines(phases: Sequence[PhaseStory], result: EpisodeResult) -> Iterator[Line]:
    """The graph of the phases in a line, those that ran at the same time side by side, and remarks on them."""
    if not phases:
        return
    yield Line(" → ".join(" ∥ ".join(map(_phase, level)) for level in levels(phases)))
    if "close" in result.timings:
        yield Line(f"settle to collect took {result.timings['close']:.3f} s, with waiting and retries")
    yield from (Line(f"{phase.name}: {phase.note}") for phase in phases if phase.note)


def levels(phases: Sequence[PhaseStory]) -> list[list[PhaseStory]]:
    """Phases by the longest way that leads to them."""
    depth: dict[str, int] = {}
    for phase in phases:
        depth[phase.name] = 1 + max((depth.get(before, 0) for before in phase.after), default=0)
    return [[phase for phase in phases if depth[phase.name] == level] for level in sorted(set(depth.values()))]


def _phase(phase: PhaseStory) -> str:
    return phase.name if phase.seconds is None else f"{phase.name} {phase.seconds:.3f} s"
