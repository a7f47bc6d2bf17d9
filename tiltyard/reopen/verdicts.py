"""The verdict on a replay: where it diverged, why, and what differed in conditions and digests."""

from collections.abc import Iterator
from dataclasses import dataclass

from schemas.base import JsonObject
from schemas.episode import Digests, End, EpisodeResult
from schemas.recording import Recording
from schemas.regrade import Judgement
from schemas.replay import Cause, Differing, StrictWhat, Verdict
from tiltyard.errors import BadInput, EnvironmentFailed, InputMissing
from tiltyard.reopen.causes import cause_of, conditions_differ, tool_of
from tiltyard.reopen.compare import first_difference, not_compared
from tiltyard.reopen.conditions import environment_differs, judging_differs, tools_differ
from tiltyard.trace import Trace

RULES = ("graders", "task")
"""Digests that change no turn: what it was graded by, and the task with all that only graders read."""

MISSING = {
    InputMissing.__name__: "what it is made again from",
    BadInput.__name__: "its world, its template or a tool",
}
"""What a replay lacked that ended with such an error."""

STRICT_DIGESTS = ("tools", "template", "graders", "task")

UNGRADED = "the grade and the drain report, which are of what was left out too"
"""What a strict replay does not compare where something else could not be compared."""


@dataclass(frozen=True)
class Played:
    """An outcome and the facts behind it."""

    result: EpisodeResult
    trace: Trace


def verdict_of(original: Played, replay: Played, recording: Recording, *, strict: bool = False) -> Verdict:
    """The verdict. ``strict`` is any difference of digests besides, and, where nothing had to be left out, of grade
    or drain report.

    Raises ``EnvironmentFailed`` for a replay that the environment or somebody ended before its end.
    """
    if (lacking := _lacking(original.result, replay.result)) is not None:
        return lacking
    _require_whole(original, replay)
    left, right = original.trace, replay.trace
    found, left_out = first_difference(left, right), not_compared(left, right)
    told: JsonObject = {} if found is None else found.model_dump()
    cause = None if found is None else cause_of(found, left, right, recording)
    if found is None and strict:
        told = next(_strictly(original.result, replay.result, graded=not left_out), {})
        cause = _strict_cause(original, replay) if told else None
    digests = original.result.digests, replay.result.digests
    return Verdict.model_validate(
        {
            **told,
            "episode": original.result.episode_id,
            "replay": replay.result.episode_id,
            "diverged": bool(told),
            "cause": cause,
            "differs": (*conditions_differ(left, right), *_rules_differ(*digests)),
            "digests": dict(zip(("episode", "replay"), digests, strict=True)),
            "tool": "" if found is None else tool_of(found, left),
            "turns": _finished(left),
            "not_compared": (*left_out, UNGRADED) if strict and left_out else left_out,
        }
    )


def _require_whole(original: Played, replay: Played) -> None:
    end, reason = replay.result.end, replay.result.reason
    as_recorded = end is original.result.end and _finished(replay.trace) >= _finished(original.trace)
    if end in (End.CANCELLED, End.TERMINATED, End.ENVIRONMENT_ERROR) and not as_recorded:
        raise EnvironmentFailed(f"the replay {replay.result.episode_id} came to no end of its own: {end}, {reason}")


def _finished(trace: Trace) -> int:
    return sum(turn.observations is not None for turn in trace.evidence.turns)


def without_facts(original: EpisodeResult, replay: EpisodeResult) -> Verdict:
    """The verdict on a replay that could not begin. Raises ``EnvironmentFailed``, unless it is for want of what the
    episode began with: its world, its template, a tool."""
    lacking = _lacking(original, replay)
    if lacking is None:
        raise EnvironmentFailed(f"the replay {replay.episode_id} could not begin: {replay.end}, {replay.reason}")
    return lacking


def _lacking(original: EpisodeResult, replay: EpisodeResult) -> Verdict | None:
    """The verdict where something was missing when the replay ran. An error's kind stands before its message."""
    kind, _, why = replay.reason.partition(": ")
    if replay.end is not End.ENVIRONMENT_ERROR or kind not in MISSING or original.reason == replay.reason:
        return None
    verdict = missing(original.episode_id, MISSING[kind], why, replay.episode_id)
    return verdict.model_copy(update={"digests": {"episode": original.digests, "replay": replay.digests}})


def missing(episode: str, what: str, why: str, replay: str = "") -> Verdict:
    """The verdict on an episode that cannot be made again, as something that it is made from is missing."""
    return Verdict(
        episode=episode, replay=replay, diverged=True, what="input", left=what, right=why, cause="missing_input"
    )


def _rules_differ(left: Digests, right: Digests) -> Iterator[Differing]:
    for name in RULES:
        one, other = getattr(left, name), getattr(right, name)
        if one != other:
            yield Differing(what=f"{name} digest", left=one or "none", right=other or "none")


def _strictly(left: EpisodeResult, right: EpisodeResult, *, graded: bool) -> Iterator[JsonObject]:
    """What differs of the outcomes; of grades and drain reports where they are ``graded`` on the same facts."""
    sides: dict[StrictWhat, tuple[JsonObject, JsonObject]] = {"digests": (_digests(left), _digests(right))}
    if graded:
        sides["grade"] = _grade(left), _grade(right)
        sides["drain"] = left.drain.model_dump(mode="json"), right.drain.model_dump(mode="json")
    for what, (one, other) in sides.items():
        differ = [name for name in one if one[name] != other[name]]
        if differ:
            yield {"what": what, "left": {n: one[n] for n in differ}, "right": {n: other[n] for n in differ}}


def _digests(result: EpisodeResult) -> JsonObject:
    return result.digests.model_dump(mode="json", include=set(STRICT_DIGESTS))


def _grade(result: EpisodeResult) -> JsonObject:
    counted = result.model_dump(mode="json", include={"counts", "answer"})
    return {**Judgement.of(result).model_dump(mode="json", exclude={"graders", "task", "weights"}), **counted}


def _strict_cause(original: Played, replay: Played) -> Cause:
    """Of what only a strict replay minds: nothing that is known differs, or what does."""
    left, right = original.trace, replay.trace
    if tools_differ(left, right):
        return "tool_interface_changed"
    if environment_differs(left, right):
        return "environment_changed"
    before, now = original.result.digests, replay.result.digests
    if judging_differs(left, right) or before.graders != now.graders:
        return "judging_changed"
    return "environment_changed" if any(_rules_differ(before, now)) else "nondeterminism"
