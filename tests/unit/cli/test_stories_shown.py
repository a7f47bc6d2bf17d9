"""Stories on terminals of every width, in a pipe, and with whatever agents and worlds say."""

import re
from collections.abc import Iterable
from typing import Any

import pytest
from rich.cells import cell_len

from ops.cli.apart import apart_lines, rows, why_lines
from ops.cli.folded import Line, folded
from ops.cli.output import Output
from ops.cli.results import show_result
from ops.cli.story_shown import levels, phases_lines, so_far_lines, story_lines
from ops.cli.turn_in_full import full_lines
from ops.cli.turns_shown import ALL_UP_TO, BETWEEN, FIRST, LAST, Gap, chosen, moment, turns_lines
from schemas.decision import Call, Decision
from schemas.episode import End, EpisodeResult, Validity
from schemas.grade import ContractResult
from schemas.journal import TurnRecord
from schemas.observation import Observation
from schemas.story import PhaseStory, TurnStory
from tests.unit.graders.story import Story as Calls
from tests.unit.graders.story import task_of
from tests.unit.reopen.played import graded, left_open, played, story_of, told, traced
from tests.unit.reopen.test_story import LOST, ORDER, PASSES
from tiltyard.reopen.apart import apart
from tiltyard.reopen.story import so_far, tell, turn_in_full
from tiltyard.reopen.told_turns import CallFacts, told_turn

WIDTHS = [60, 80, 200]
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def shown(lines: Iterable[Line], width: int | None = 80) -> str:
    return "\n".join(folded(lines, width))


def plain(lines: Iterable[Line]) -> list[str]:
    return list(folded(lines, None))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("policy", ["reconcile", "new_id_retry", "do_nothing", "late_callback"])
def test_no_line_is_longer_than_the_terminal(width: int, policy: str) -> None:
    trace, result = played(LOST, policy)
    story = story_of(LOST, policy)
    texts = [shown(story_lines(story, result), width), shown(so_far_lines(story), width)]
    texts += [shown(full_lines(turn_in_full(trace, turn.turn)), width) for turn in story.turns]
    for text in texts:
        assert max(cell_len(line) for line in text.splitlines() if "episodes show" not in line) <= width


def test_in_a_pipe_each_thing_is_one_line() -> None:
    lines = plain(story_lines(story_of(LOST, "new_id_retry"), played(LOST, "new_id_retry")[1]))
    assert any("create_replacement(" in line and "[e-1/1/4/0]" in line for line in lines)
    assert "      planned fault commit_then_drop: it took effect, and its reply was dropped" in lines
    assert '      receipt "order-A-503-aria-7-56ca5efe1c99" at 65 s' in lines
    assert "      ~ stock/aria-7: available 5 → 4" in lines


def test_the_points_say_which_change_rule_and_measure_is_behind_them() -> None:
    lines = plain(story_lines(story_of(LOST, "new_id_retry"), played(LOST, "new_id_retry")[1]))
    assert "  0.039 = 0.55·0.00 (C) + 0.25·0.16 (P) + 0.20·0.00 (E)" in lines
    assert "  C: 1 of 5 contracts passed; all must" in lines
    assert "    replacements/R-1001 was created: outcome 'replaced'" in lines
    assert "    replacements/R-1002 was created: NOT AS EXPECTED" in lines
    assert "  P: the rules that were triggered weigh 19; those of them that held weigh 3" in lines
    assert any(line.startswith("    NOT HELD, weight 16: reconcile_before_retry") for line in lines)
    assert "    tool calls: 7 by the reference, 7 used: 1.00" in lines


def test_the_points_say_what_was_expected_and_did_not_happen() -> None:
    lines = plain(story_lines(story_of(LOST, "do_nothing"), played(LOST, "do_nothing")[1]))
    assert "    tickets/T-2301: NOT UPDATED; outcome 'replaced' demands it" in lines
    assert "    stock/aria-7: NOT UPDATED; outcome 'replaced' demands it" in lines
    lines = plain(story_lines(story_of(LOST, "new_id_retry"), played(LOST, "new_id_retry")[1]))
    assert "    stock/aria-7 was updated: NOT AS EXPECTED: available is 3, not 4" in lines


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(65, "65 s"), (86_399, "86399 s"), (86_400, "86400 s, 1.0 days"), (1_296_333, "1296333 s, 15.0 days")],
)
def test_moments_after_the_first_day_are_told_in_days_too(seconds: int, told: str) -> None:
    assert moment(seconds) == told


def test_days_stand_at_turns_and_jobs() -> None:
    late = turn(3).model_copy(update={"now_s": 1_296_333})
    assert plain(turns_lines([late]))[0] == "turn 3 (world's clock: 1296333 s, 15.0 days)"
    lines = plain(story_lines(story_of(LOST, "new_id_retry"), played(LOST, "new_id_retry")[1]))
    assert any("ship_replacement, due at 172865 s, 2.0 days: done" in line for line in lines)


def test_graders_that_have_changed_since_are_mentioned() -> None:
    trace, result = played(LOST, "reconcile")
    other = result.model_copy(update={"digests": result.digests.model_copy(update={"graders": "sha256:older"})})
    assert "the graders have changed since" in shown(story_lines(tell(trace, other), other), None)
    assert "have changed" not in shown(story_lines(tell(trace, result), result), None)


def test_long_answers_are_cut_in_the_story_and_whole_in_their_turn() -> None:
    text = "\n".join(f"line {number}" for number in range(100))
    calls = Calls().call("look", content={"stdout": text, "note": "x" * 1000, "exit_code": 1})
    trace = traced(calls, task_of(PASSES))
    story = shown(story_lines(told(trace), graded(trace)), None)
    assert "… (94 lines more)" in story
    assert "| line 0" in story
    assert "| line 99" in story
    assert "line 50" not in story
    assert re.search(r"x… \(\d+ characters more\)", story)
    assert "episodes show episode --turn N" in story, "left whole, for copying"
    full = shown(full_lines(turn_in_full(trace, 0)), None)
    assert "| line 50" in full
    assert "x" * 1000 in full


HOSTILE = "\x1b[31mred\x07\u202eevil\r\n\tnext\ud800"


def test_nothing_that_an_agent_or_a_world_says_steers_the_terminal() -> None:
    body = {HOSTILE: HOSTILE}
    calls = Calls().call("order", (HOSTILE, HOSTILE, None, body), content=body, **{HOSTILE: HOSTILE})
    calls.call("order", (HOSTILE, HOSTILE, body, {HOSTILE: "other"}), status="error", code=HOSTILE)
    calls.turns[0] = calls.turns[0].model_copy(
        update={"decision": calls.turns[0].decision.model_copy(update={"thought": HOSTILE, "memo": HOSTILE})}
    )
    calls.submit(**{HOSTILE: HOSTILE})
    trace = traced(calls, task_of(PASSES))
    result = graded(trace)
    lines = [*story_lines(told(trace), result)]
    for turn in (0, 1, 2):
        lines += full_lines(turn_in_full(trace, turn))
    other = apart(trace, result, traced(Calls().call("look"), task_of(PASSES)), result)
    lines += [*apart_lines(other), *why_lines(other)]
    for width in (60, None):
        text = shown(lines, width)
        assert not CONTROL.search(text)
        text.encode()


def turn(number: int, status: str = "ok", **content: Any) -> TurnStory:
    seen = Observation(tool="look", status=status, content=content or {"exit_code": 0})  # type: ignore[arg-type]
    record = TurnRecord(turn=number, decision=Decision(calls=(Call(tool="look"),)), observations=(seen,))
    return told_turn(record, CallFacts())


def test_of_very_many_turns_the_ends_and_what_went_wrong_are_shown() -> None:
    turns = [turn(n, "error" if n in (700, 2500) else "ok") for n in range(5000)]
    turns[1200] = turn(1200, exit_code=2)
    picked = list(chosen(turns))
    numbers = [one.turn for one in picked if isinstance(one, TurnStory)]
    assert numbers == [*range(FIRST), 700, 1200, 2500, *range(5000 - LAST, 5000)]
    gaps = [one for one in picked if isinstance(one, Gap)]
    assert sum(len(gap.turns) for gap in gaps) + len(numbers) == 5000
    assert not any(gap.notable for gap in gaps)
    lines = plain(turns_lines(turns))
    assert len(lines) < 200
    assert "… turns 10 to 699: 690 turns more; `--turn N` shows one" in lines


def test_what_is_left_out_of_what_went_wrong_is_counted() -> None:
    turns = [turn(n, "timeout") for n in range(300)]
    picked = list(chosen(turns))
    assert sum(isinstance(one, TurnStory) for one in picked) == FIRST + BETWEEN + LAST
    (gap,) = [one for one in picked if isinstance(one, Gap)]
    assert gap.notable == len(gap.turns) == 300 - FIRST - BETWEEN - LAST
    assert f"{gap.notable} of which changed something or went wrong" in shown(turns_lines(turns), None)


def test_as_many_turns_as_are_easily_read_are_all_shown() -> None:
    turns = [turn(n) for n in range(ALL_UP_TO)]
    assert list(chosen(turns)) == turns


def test_phases_that_ran_together_stand_side_by_side() -> None:
    _, result = played(LOST, "reconcile")
    timed = result.model_copy(update={"timings": {"close": 1.25}})
    phases = (
        PhaseStory(name="lease", seconds=0.5),
        PhaseStory(name="provision", seconds=2),
        PhaseStory(name="turns", after=("lease", "provision"), seconds=3),
        PhaseStory(name="grade", after=("turns",), seconds=0.1),
        PhaseStory(name="recycle", after=("turns",), note="not timed"),
    )
    assert [[one.name for one in level] for level in levels(phases)] == [
        ["lease", "provision"],
        ["turns"],
        ["grade", "recycle"],
    ]
    assert plain(phases_lines(phases, timed)) == [
        "lease 0.500 s ∥ provision 2.000 s → turns 3.000 s → grade 0.100 s ∥ recycle",
        "settle to collect took 1.250 s, with waiting and retries",
        "recycle: not timed",
    ]


def test_an_open_turn_and_a_question_say_what_they_wait_for() -> None:
    trace, _ = played(LOST, "new_id_retry")
    asked = TurnRecord(turn=1, decision=Decision(ask="May I?\nReally?"))
    lines = plain(so_far_lines(so_far(trace.evidence.spec, trace.task, 1, (trace.evidence.turns[4], asked))))
    assert "    planned fault commit_then_drop: it took effect, and its reply was dropped" in [
        line.removeprefix("  ") for line in lines
    ]
    assert lines[-4:] == ["    asks:", "    | May I?", "    | Really?", "      → nobody has answered yet"]


def test_a_call_in_flight_is_told_as_it_was_read() -> None:
    calls = Calls().call("order", ORDER, item="lamp")
    calls.turns[0] = left_open(calls.turns[0])
    trace = traced(calls, task_of(PASSES), in_flight={"episode/7/0/0": "committed"})
    lines = plain(turns_lines(told(trace).turns))
    assert "    in flight at the seal, and done" in lines
    assert not any("no answer yet" in line for line in lines)


def test_two_episodes_are_laid_side_by_side() -> None:
    found = apart(*played(LOST, "reconcile"), *played(LOST, "new_id_retry"))
    text = shown(apart_lines(found))
    assert "the decisions of turns 0 to 4 are the same; they part in turn 5" in text
    assert text.index("get_receipt(") < text.index("right:") < text.index("create_replacement(")
    told_rows = {name: (left, right) for name, left, right in rows(found)}
    assert told_rows["score"] == ("1.000", "0.039")
    assert told_rows["receipts"] == ("passed", "FAILED")
    assert "right failed receipts" in plain(why_lines(found))
    same = apart(*played(LOST, "reconcile"), *played(LOST, "reconcile"))
    assert "all 8 decisions are the same" in shown(apart_lines(same))
    assert "nothing else differs either" in shown(apart_lines(same))


def result(**more: Any) -> EpisodeResult:
    values = {"episode_id": "e", "task": "t", "policy": "p", "seed": 0, "end": End.SUBMITTED, "validity": "valid"}
    return EpisodeResult.model_validate({**values, **more})


FAILED = (ContractResult(name="state", kind="state", passed=False, why=("nothing was done",)),)


@pytest.mark.parametrize(
    ("validity", "said"),
    [
        (Validity.ENVIRONMENT, "judged  none of 1 contract: it had no turn"),
        (Validity.VALID, "judged  1 of 1 contract failed: it had no turn"),
    ],
)
def test_contracts_of_a_trial_without_a_turn_are_not_told_as_if_they_were_judged(
    validity: Validity, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_result(Output(as_json=False), result(validity=validity, contracts=FAILED))
    text = capsys.readouterr().out
    assert said in text
    assert "FAILED" not in text
    show_result(Output(as_json=False), result(contracts=FAILED, counts={"turns": 1}))
    text = capsys.readouterr().out
    assert "FAILED  state\n          nothing was done\n" in text


def test_no_points_are_told_of_a_trial_without_a_turn_that_does_not_count() -> None:
    trace, result_of = played(LOST, "do_nothing")
    story = tell(trace, result_of).model_copy(update={"turns": ()})
    assert "points" in plain(story_lines(story, result_of))
    spoilt = result_of.model_copy(update={"validity": Validity.ENVIRONMENT})
    assert "points" not in plain(story_lines(story, spoilt))


def test_a_long_reason_is_folded_below_itself() -> None:
    lines = [Line("risk    " + "word " * 40, hang=8), Line("x" * 200, 6, mark="| ")]
    text = list(folded(lines, 60))
    assert all(line.startswith("        word") for line in text[1:4])
    assert text[-4].startswith("      | xxx")
    assert text[-1].startswith("        xxx")


def test_a_reason_of_several_lines_cannot_be_taken_for_a_line_of_the_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_result(Output(as_json=False), result(reason="it broke\nscore   1.000\n\x1b[31mpassed  state"))
    lines = capsys.readouterr().out.splitlines()
    assert "        score   1.000" in lines
    assert "        \\x1b[31mpassed  state" in lines
    assert sum(line.startswith("score ") for line in lines) == 1
