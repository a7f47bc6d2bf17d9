"""What a policy is sent: the whole view, each turn of it written once."""

import json
from typing import Any, ClassVar

from infra.policies.questions import Questions
from schemas.decision import Call, Decision
from schemas.observation import Observation
from schemas.view import Turn, View
from tests.contract.policies_port.bench import view


class CountedTurn(Turn):
    """A turn that counts how often it is written."""

    written: ClassVar[list[str]] = []

    def model_dump(self, **options: Any) -> dict[str, Any]:
        self.written.append(self.decision.thought)
        return super().model_dump(**options)


def turn(thought: str) -> Turn:
    shown = Observation(tool="find", status="ok", content={"žluťoučký": "🐎"})
    return CountedTurn(decision=Decision(thought=thought, calls=(Call(tool="find"),)), observations=(shown,))


def after(*thoughts: str) -> View:
    return view(len(thoughts)).model_copy(update={"transcript": tuple(map(turn, thoughts))})


async def test_a_line_is_the_whole_view() -> None:
    questions = Questions()
    for shown in (after(), after("a"), after("a", "b", "c"), after("a", "x"), after()):
        line = await questions.line(shown)
        assert line.endswith(b"\n")
        assert line.isascii()
        assert json.loads(line) == {"type": "act", "view": shown.model_dump(mode="json")}


async def test_each_turn_is_written_once_also_when_a_later_slice_has_read_it_again() -> None:
    questions, thoughts = Questions(), [str(number) for number in range(50)]
    CountedTurn.written.clear()
    for turns in range(51):
        await questions.line(after(*thoughts[:turns]))  # equal turns, other objects: as after a read of the journal
    assert CountedTurn.written == thoughts


async def test_another_transcript_is_written_anew() -> None:
    questions = Questions()
    await questions.line(after("a", "b"))
    CountedTurn.written.clear()
    await questions.line(after("a", "x"))
    assert CountedTurn.written == ["a", "x"]
