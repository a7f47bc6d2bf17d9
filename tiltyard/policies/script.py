"""Scripts: policies written as generators.

A script yields a decision and is sent what its call was shown; what it returns is its last decision:

    def look(brief):
        ticket = yield call("get_ticket", ticket_id="T-1")
        return submit({"status": field(ticket, "status")})

It keeps no state. It is played from the transcript, so that it is a function of the view alone, survives any
crash, and can take over an episode from another policy. Where the last view was this one without its newest turn,
it goes on from there, which comes to the same. It needs the whole transcript: a view with a summary is refused.
"""

import hashlib
from collections.abc import Callable, Generator
from dataclasses import dataclass

from pydantic import JsonValue

from schemas.base import JsonObject
from schemas.decision import Call, Decision
from schemas.observation import Observation
from schemas.view import Turn, View
from tiltyard.errors import PolicyFailed

Moves = Generator[Decision, Observation, Decision]
Script = Callable[["Brief"], Moves]

NOTHING_SHOWN = Observation(tool="", status="timeout", message="nothing was shown")


@dataclass(frozen=True)
class Brief:
    """What a script may know before its first turn: the parts of the view that never change."""

    instruction: str
    tools: frozenset[str]
    seed: int

    def operation_id(self, purpose: str) -> str:
        """A name for an effect: the same for the same seed and purpose, so that a repeat keeps it."""
        digest = hashlib.sha256(f"{self.seed}/{purpose}".encode()).hexdigest()
        return f"{purpose}-{digest[:12]}"


def call(tool: str, **arguments: JsonValue) -> Decision:
    """One call."""
    return Decision(calls=(Call(tool=tool, arguments=arguments),))


def submit(answer: JsonObject) -> Decision:
    """The answer: the script's last decision."""
    return Decision(submit=answer)


def give_up(reason: str) -> Decision:
    """Stop without an answer."""
    return Decision(give_up=reason)


def field(observation: Observation, name: str) -> JsonValue:
    """A member of an object that was shown; ``None`` where there is no such thing."""
    return observation.content.get(name) if isinstance(observation.content, dict) else None


@dataclass(frozen=True)
class _Played:
    """Moves that have led through the end of ``transcript`` to ``decision``."""

    brief: Brief
    transcript: tuple[Turn, ...]
    moves: Moves
    decision: Decision


class ScriptPolicy:
    """A script as a policy."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._played: _Played | None = None

    async def act(self, view: View) -> Decision:
        """Raises ``PolicyFailed`` for a view with a summary."""
        if view.summary is not None:
            raise PolicyFailed(
                f"a script is played again from the whole transcript, and its first {view.summary.turns} turns are "
                f"summarised here; of the shipped ones only reference plays tasks with a view limit to their end"
            )
        brief = _brief(view)
        moves, decision = self._further(brief, view.transcript) or self._anew(brief, view.transcript)[1:]
        self._played = _Played(brief, view.transcript, moves, decision)
        return decision

    def begins_at(self, view: View) -> int:
        """The first turn of the view that is this script's own, as are all after it. Of those before it knows
        nothing."""
        return self._anew(_brief(view), view.transcript)[0]

    def _further(self, brief: Brief, transcript: tuple[Turn, ...]) -> tuple[Moves, Decision] | None:
        """One turn further than the last time, if this is what has come of it."""
        last, known = self._played, transcript[:-1]
        if last is None or not transcript or (last.brief, last.transcript) != (brief, known):
            return None
        if transcript[-1].decision != last.decision.without_memo():
            return None
        return last.moves, _step(last.moves, _shown(transcript[-1]))

    def _anew(self, brief: Brief, transcript: tuple[Turn, ...]) -> tuple[int, Moves, Decision]:
        """(the first turn that is its own, the moves, the decision)."""
        for start in range(len(transcript)):
            moves = self._script(brief)
            decision = _play(moves, transcript[start:])
            if decision is not None:
                return start, moves, decision
        # Every turn so far was somebody else's (a forked episode): begin here.
        moves = self._script(brief)
        return len(transcript), moves, _step(moves, None)


def _brief(view: View) -> Brief:
    return Brief(view.instruction, frozenset(tool.name for tool in view.tools), view.seed)


def _play(moves: Moves, transcript: tuple[Turn, ...]) -> Decision | None:
    """The decision after ``transcript``; ``None`` when these moves would not have led there."""
    decision = _step(moves, None)
    for turn in transcript:
        if turn.decision != decision.without_memo():
            return None
        decision = _step(moves, _shown(turn))
    return decision


def _shown(turn: Turn) -> Observation:
    return turn.observations[0] if turn.observations else NOTHING_SHOWN


def _step(moves: Moves, shown: Observation | None) -> Decision:
    try:
        return next(moves) if shown is None else moves.send(shown)
    except StopIteration as end:
        return end.value if isinstance(end.value, Decision) else give_up("the script has ended")
