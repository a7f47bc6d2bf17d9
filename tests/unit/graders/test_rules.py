"""Process rules: when each is triggered, and when it holds."""

from typing import Any

import pytest

from schemas.contract import ProcessRule
from tiltyard.graders.rules import judge, process_score

from .story import Story, task_of
from .test_contracts import RECEIPTS

HELD, BROKEN = (True, True), (True, False)


def rule(name: str, tool: str | None = "order", **more: Any) -> ProcessRule:
    call = {"tool": tool, **more.pop("match", {})} if tool else None
    return ProcessRule.model_validate({"rule": name, "call": call, **more})


def did(*tools: str) -> Story:
    story = Story()
    for tool in tools:
        story.call(tool)
    return story


def lost(**arguments: Any) -> Story:
    return Story().call("order", ("orders", "O-1", None, {}), status="timeout", **arguments)


def failed(*counts: int) -> Story:
    story = Story()
    for n in counts:
        story.call("order", status="error", n=n)
    return story


AGAIN: tuple[str, str, None, dict[str, Any]] = ("orders", "O-2", None, {})
EVIDENCE = rule("claim_needs_evidence", None, fields=["order_id"])
RECONCILE = rule("reconcile_before_retry")
CHANGE = rule("strategy_change_after", n=2)


@pytest.mark.parametrize(
    ("judged", "story", "verdict"),
    [
        (rule("require", "look"), did("look"), HELD),
        (rule("require", "look"), did("order"), BROKEN),
        (rule("require", "look"), Story().give_up(), (False, False)),
        (rule("require", "look", match={"status": ["ok"]}), Story().call("look", status="error"), BROKEN),
        (rule("require", "look", match={"arguments": {"n": 1}}), Story().call("look", n=1, m=2), HELD),
        (rule("require", "look", match={"arguments": {"n": 1}}), Story().call("look", n=2), BROKEN),
        (rule("forbid"), did("look"), (False, True)),
        (rule("forbid"), did("order"), BROKEN),
        (rule("forbid", if_done={"tool": "look"}), did("look"), HELD),
        (rule("order", before={"tool": "look"}), did("look", "order"), HELD),
        (rule("order", before={"tool": "look"}), did("order", "look"), BROKEN),
        (rule("order", before={"tool": "look"}), did("order", "look", "order"), BROKEN),
        (rule("order", before={"tool": "look"}), did("look"), (False, True)),
        (rule("at_most", n=2), did("order", "order"), HELD),
        (rule("at_most", n=2), did("order", "order", "order"), BROKEN),
        (rule("at_most"), did("look"), (False, True)),
        (RECONCILE, did("order", "order"), (False, True)),
        (RECONCILE, lost(operation_id="a"), HELD),
        (RECONCILE, lost(operation_id="a").call("get_receipt", operation_id="a"), HELD),
        (RECONCILE, lost(operation_id="a").call("get_receipt", operation_id="a").call("order", AGAIN), HELD),
        (RECONCILE, lost(operation_id="a").call("order", AGAIN, operation_id="a"), HELD),
        (RECONCILE, lost(operation_id="a").call("order", AGAIN, operation_id="b"), BROKEN),
        (RECONCILE, lost(operation_id="a").call("get_receipt", operation_id="b").call("order", AGAIN), BROKEN),
        (RECONCILE, lost().call("get_receipt", operation_id="a").call("order", AGAIN), BROKEN),
        (
            RECONCILE,
            lost(operation_id="a")
            .call("get_receipt", status="error", code="not_found", operation_id="a")
            .call("order", AGAIN, operation_id="b"),
            HELD,
        ),
        (
            RECONCILE,
            lost(operation_id="a")
            .call("get_receipt", status="error", code="unavailable", operation_id="a")
            .call("order", AGAIN, operation_id="b"),
            BROKEN,
        ),
        (RECONCILE, lost(operation_id="a").call("order", status="error", operation_id="b"), HELD),
        (CHANGE, failed(1), (False, True)),
        (CHANGE, failed(1, 1), HELD),
        (CHANGE, failed(1, 1, 2), HELD),
        (CHANGE, failed(1, 1, 1), BROKEN),
        (CHANGE, failed(1).call("look").call("order", status="error", n=1), (False, True)),
        (EVIDENCE, Story().call("look", content={"id": "O-1"}).submit(order_id="O-1"), HELD),
        (EVIDENCE, Story().call("look", content={"id": "O-1"}).submit(order_id="O-2"), BROKEN),
        (EVIDENCE, Story().call("look", content={"id": "O-1"}, status="error").submit(order_id="O-1"), BROKEN),
        (EVIDENCE, Story().submit(order_id="O-1"), BROKEN),
        (EVIDENCE, Story().submit(outcome="refused"), (False, True)),
        (EVIDENCE, Story().give_up(), (False, True)),
        (
            ProcessRule.model_validate({**EVIDENCE.model_dump(), "call": {"tool": "order"}}),
            Story().call("look", content="O-1").submit(order_id="O-1"),
            BROKEN,
        ),
    ],
)
def test_rule(judged: ProcessRule, story: Story, verdict: tuple[bool, bool]) -> None:
    result = judge(judged, story.trial(task_of(RECEIPTS)))
    assert (result.triggered, result.held) == verdict, result.why
    assert bool(result.why) != result.held


@pytest.mark.parametrize(
    ("judged", "story", "why"),
    [
        (rule("order", before={"tool": "look"}), did("order"), "look did not come before turn 0, call 0"),
        (
            rule("order", before={"tool": "look", "status": ["ok"]}),
            Story().call("look", status="error").call("order"),
            "look with the status ok did not come before turn 1, call 0",
        ),
        (
            rule("order", before={"tool": "look", "arguments": {"n": 1}, "like": {"at": "*shelf"}}),
            Story().call("look", n=1).call("order"),
            'look {"n":1} with at like "*shelf" did not come before turn 1, call 0',
        ),
        (rule("require", "look"), did("order"), "it never happened"),
        (
            rule("require", "look", match={"status": ["ok", "timeout"]}),
            Story().call("look", status="error"),
            "it never happened with the status ok or timeout",
        ),
    ],
)
def test_why_a_rule_did_not_hold_says_what_was_missing(judged: ProcessRule, story: Story, why: str) -> None:
    assert judge(judged, story.trial(task_of(RECEIPTS))).why == why


def test_p_counts_triggered_rules_by_weight() -> None:
    rules = (rule("require", "look", weight=3), rule("at_most", n=1), rule("forbid", "cancel", weight=9))
    trial = did("look", "order", "order").trial(task_of(RECEIPTS, process=rules))
    assert process_score(tuple(judge(one, trial) for one in rules), trial) == 3 / 4


def test_p_without_a_triggered_rule_is_1_with_calls_and_0_without() -> None:
    quiet = (rule("forbid", "cancel"),)
    for story, p in ((did("look"), 1.0), (Story().give_up(), 0.0), (Story().submit(done=True), 0.0)):
        trial = story.trial(task_of(RECEIPTS, process=quiet))
        assert process_score(tuple(judge(one, trial) for one in quiet), trial) == p
