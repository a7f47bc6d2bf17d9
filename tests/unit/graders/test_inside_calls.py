"""Calls that programs in a sandbox make: what they do to the clocks, and how graders see them."""

from schemas.contract import AnswerContract, CallMatch, ProcessRule
from schemas.operation import WorldSeen
from tests.unit.graders.story import Story, task_of
from tiltyard.episode.gateway import Clocks, after_command
from tiltyard.graders.counts import count, duplicate_effects
from tiltyard.graders.rules import judge
from tiltyard.graders.trial import Trial

ROW = ("orders", "o-1", None, {"item": "lamp"})
SHELL_S = 5


def test_a_command_without_calls_costs_what_its_tool_declares() -> None:
    assert after_command(Clocks(10, 5), "shell") == Clocks(15, 10)


def test_calls_from_inside_have_moved_the_clock() -> None:
    """The world stood at 10 and had made up for 5 s before; three calls of 30 s came."""
    assert after_command(Clocks(10, 5), "shell", WorldSeen(now_s=100, elsewhere_s=5)) == Clocks(105, 10)


def test_what_was_seen_of_the_world_stays_true_whatever_it_had_made_up_for() -> None:
    """A child in the background called before the world had heard of the last 5 s outside of it."""
    assert after_command(Clocks(45, 10), "shell", WorldSeen(now_s=40, elsewhere_s=5)) == Clocks(50, 15)


def test_the_agent_s_own_later_calls_are_not_forgotten() -> None:
    """The clock stands at 200 since; what was seen inside is older."""
    assert after_command(Clocks(200, 10), "shell", WorldSeen(now_s=100, elsewhere_s=5)) == Clocks(205, 15)


def told() -> Story:
    """Two commands; programs of the first one order, lose the reply, and order again."""
    story = Story().call("look").call("look").call("look")
    for delivery_id, status in (("episode/7/1/0/http/2", "ok"), ("episode/7/1/0/http/1", "timeout")):
        story.inside(delivery_id, "order", ROW, status=status, item="lamp")
    return story


def trial_of(story: Story) -> Trial:
    return story.trial(task_of(AnswerContract(accept=({},))))


def test_they_follow_the_command_that_they_descend_from_in_the_order_of_their_numbers() -> None:
    trial = trial_of(told())
    places = [(call.turn, call.index, call.request, call.tool) for call in trial.calls]
    assert places == [
        (0, 0, 0, "look"),
        (1, 0, 0, "look"),
        (1, 0, 1, "order"),
        (1, 0, 2, "order"),
        (2, 0, 0, "look"),
    ]
    assert [(call.status, call.effect) for call in trial.calls[2:4]] == [("timeout", True), ("ok", True)]


def test_their_effects_and_duplicates_are_the_agent_s() -> None:
    trial = trial_of(told())
    counts = count(trial.facts, trial.turns, 100)
    assert (counts.tool_calls, counts.effects, counts.duplicates) == (3, 2, 1)
    (found,) = duplicate_effects(trial.facts)
    assert "turn 1, call 0, request 2" in found.detail


def test_process_rules_see_them() -> None:
    rule = ProcessRule(rule="reconcile_before_retry", call=CallMatch(tool="order"))
    result = judge(rule, trial_of(told()))
    assert (result.triggered, result.held) == (True, False)
    assert "turn 1, call 0, request 1" in result.why
