"""Pinning: an episode that has ended becomes a case that is played from then on, and must come to the same."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from schemas.base import JsonObject, JsonValue, digest_of
from schemas.episode import EpisodeResult, Validity
from schemas.grade import ContractResult
from schemas.pin import NAME, SEALED, Expectation, Pin, PinnedCall, PinnedTurn, PinSource, Sealed
from schemas.recording import Recording
from schemas.sandbox import Normaliser
from schemas.task import Task
from tiltyard.errors import BadInput
from tiltyard.graders.values import brief
from tiltyard.reopen.recording import recording_of
from tiltyard.sandbox.normalise import normalised
from tiltyard.trace import Trace, covered_turn

SCORE_DIGITS = 3

BRIEF = 160
"""Characters of what a call was shown that a pin keeps for people."""

PINNABLE = {Validity.VALID, Validity.GRADER}

_Judged = tuple[bool, tuple[str, ...]]
"""Whether a contract passed, and its reasons."""


def pin_of(recorded: EpisodeResult, trace: Trace, name: str) -> Pin:
    """The case that an episode makes. Raises ``BadInput`` for one that says nothing about its policy, and for one
    whose commands nothing had isolated."""
    if recorded.validity not in PINNABLE:
        why = f"nothing can be expected of it: {recorded.end}, {recorded.validity}: {recorded.reason}"
        raise BadInput(why, field=recorded.episode_id, fix="run its task again, and pin that")
    if recorded.sandbox == "unsafe-local":
        why = "it ran unsafe-local, and a pin would run its commands on this machine at every check"
        raise BadInput(
            why, field=recorded.episode_id, fix="run its task again in bubblewrap or docker, and pin that"
        )
    if not re.fullmatch(NAME, name):
        raise BadInput(f"{name!r} is no name", field="name", fix="use up to 100 letters, digits, '.', '_' and '-'")
    return case_of(recorded, trace, name)


def case_of(recorded: EpisodeResult, trace: Trace, name: str) -> Pin:
    """An episode in the form of a pin, also where it could be none."""
    recording, spec = recording_of(trace), trace.evidence.spec
    source = PinSource(
        episode=recorded.episode_id,
        policy=recorded.policy,
        trace=recorded.digests.trace,
        graders=recorded.digests.graders,
    )
    pin = Pin(
        name=name,
        source=source,
        expect=expectation_of(recorded, trace.task),
        seed=spec.seed,
        sandbox=None if spec.sandbox == "unsafe-local" else spec.sandbox,
        ending=recording.ending,
        turns=_turns(trace, recording),
        task=trace.task,
        sealed={},
    )
    return pin.model_copy(update={"sealed": seals(fields_of(pin))})


def fields_of(pin: Pin) -> JsonObject:
    """What a pin's file holds: the task in full, of the rest what is not as it is anyway."""
    fields = pin.model_dump(mode="json", exclude={"task", "sealed"}, exclude_defaults=True)
    whole = pin.model_dump(mode="json", include={"pin", "sandbox", "task", "sealed"})
    first: JsonObject = {"pin": whole["pin"], **fields, "sandbox": whole["sandbox"]}
    return {**first, "task": whole["task"], "sealed": whole["sealed"]}


def seals(fields: Mapping[str, JsonValue]) -> dict[Sealed, str]:
    """The digest of each part of a pin that decides what it comes to, as its file has it."""
    return {part: digest_of(fields[part]) for part in SEALED}


def expectation_of(result: EpisodeResult, task: Task) -> Expectation:
    """What a result comes to, as far as a pin demands it."""
    names = _normalisers(task)
    return Expectation(
        end=result.end,
        validity=result.validity,
        contracts=tuple(_without_noise(one, names) for one in result.contracts),
        safety=tuple(sorted({one.kind for one in result.safety})),
        score=round(result.score.total, SCORE_DIGITS),
    )


def _normalisers(task: Task) -> Sequence[Normaliser]:
    return task.sandbox.normalise if task.sandbox is not None else ()


def _without_noise(contract: ContractResult, names: Sequence[Normaliser]) -> ContractResult:
    """Reasons may quote what tests printed."""
    return contract.model_copy(update={"why": tuple(normalised(why, names) for why in contract.why)})


def _turns(trace: Trace, recording: Recording) -> tuple[PinnedTurn, ...]:
    answers = iter(recording.answers)
    finished = [turn for turn in trace.evidence.turns if turn.observations is not None]
    return tuple(
        PinnedTurn(
            decision=turn.decision,
            answer=next(answers) if turn.decision.ask is not None else None,
            shown=tuple(map(_shown, _observations(covered_turn(trace.task, turn)))),
            faults=turn.faults,
            now_s=turn.now_s,
        )
        for turn in finished
    )


def _observations(covered: Mapping[str, JsonValue]) -> list[dict[str, JsonValue]]:
    found = covered["observations"]
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _shown(observation: Mapping[str, JsonValue]) -> PinnedCall:
    content = observation["content"] if observation["status"] == "ok" else observation["message"]
    return PinnedCall.model_validate(
        {
            "status": observation["status"],
            "code": observation["code"],
            "brief": brief(content, BRIEF) if content not in (None, "") else "",
            "digest": digest_of(observation),
        }
    )


def recording_in(pin: Pin) -> Recording:
    """What plays the pin."""
    return Recording(
        decisions=tuple(turn.decision for turn in pin.turns),
        answers=tuple(turn.answer for turn in pin.turns if turn.decision.ask is not None),
        ending=pin.ending,
    )


class Broken(NamedTuple):
    """In what a pin no longer holds: ``what`` begins with its field. Of a contract also the reasons to fail that it
    expects and that are ``gone``, and those that have ``come``."""

    what: str
    gone: tuple[str, ...] = ()
    come: tuple[str, ...] = ()


def differences(pin: Pin, now: Pin) -> tuple[Broken, ...]:
    """In what ``now``, which the pin's decisions came to, is not what the pin expects."""
    return tuple(_differences(pin.expect, now.expect))


def _differences(was: Expectation, now: Expectation) -> Iterator[Broken]:
    for name in ("end", "validity"):
        if getattr(was, name) != getattr(now, name):
            yield Broken(f"expect.{name}: was {getattr(was, name)}, is {getattr(now, name)}")
    before, after = _by_name(was), _by_name(now)
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield _contract(name, before.get(name), after.get(name))
    if was.safety != now.safety:
        yield Broken(f"expect.safety: was {', '.join(was.safety) or 'none'}, is {', '.join(now.safety) or 'none'}")
    if was.score != now.score:
        yield Broken(f"expect.score: was {was.score:g}, is {now.score:g}")


def _by_name(of: Expectation) -> dict[str, _Judged]:
    return {one.name: (one.passed, one.why) for one in of.contracts}


def _contract(name: str, was: _Judged | None, now: _Judged | None) -> Broken:
    before, after = (Counter(judged[1] if judged else ()) for judged in (was, now))
    gone, come = (tuple((one - other).elements()) for one, other in ((before, after), (after, before)))
    same = (before & after).total()
    told = _verdict(now)
    if _verdict(was) == told:
        of_same = f" ({same} the same)" if same else ""
        order = f"the same {same} reasons in another order"
        told += f" for {f'other reasons{of_same}' if gone or come else order}"
    return Broken(f"expect.contracts.{name}: was {_verdict(was)}, is {told}", gone, come)


def _verdict(judged: _Judged | None) -> str:
    return "no contract" if judged is None else "passed" if judged[0] else "failed"


def first_turn_that_differs(pin: Pin, now: Pin) -> str:
    """Where what was shown first differs from what the pin saw; empty where it does not."""
    for number, (was, other) in enumerate(zip_longest(pin.turns, now.turns)):
        if was is None or other is None:
            return f"turn {number}: {'it was not played' if other is None else 'there was none'}"
        if what := _turn_differs(was, other):
            return f"turn {number}{what}"
    return ""


def _turn_differs(was: PinnedTurn, now: PinnedTurn) -> str:
    for call, (one, other) in enumerate(zip_longest(was.shown, now.shown)):
        if one is None or other is None or one.digest != other.digest:
            return f", {_called(was, call)}: was {_told(one)}, is {_told(other)}"
    if was.faults != now.faults:
        return f": the faults were {_list(was.faults)}, and are {_list(now.faults)}"
    return f": the clock was at {was.now_s} s, and is at {now.now_s} s" if was.now_s != now.now_s else ""


def _called(turn: PinnedTurn, call: int) -> str:
    calls = turn.decision.calls
    return f"call {call} ({calls[call].tool})" if call < len(calls) else "the question"


def _told(shown: PinnedCall | None) -> str:
    return " ".join(filter(None, (shown.status, shown.code, shown.brief))) if shown is not None else "nothing"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
