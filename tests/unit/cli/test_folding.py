"""On a terminal nothing that people read is wider than it: lines end between words, and commands stay whole."""

from pathlib import Path
from typing import Any

import pytest

from ops.cli.called import call_on, command_line
from ops.cli.failures import WRONG_USE, report
from ops.cli.folded import Line, folded, prose, show_lines
from ops.cli.main import run_program
from ops.cli.minimising import Minimised, lines_of
from ops.cli.output import Output
from ops.cli.pins import broken_lines
from ops.cli.watching import status_line
from schemas.grade import ContractResult
from schemas.status import EpisodeStatus
from tests.unit.cli.terminal import answers_on, errors_on
from tests.unit.reopen.pins import LOST, held, outcome, pinned
from tiltyard.errors import BadInput
from tiltyard.policies.catalogue import open_script
from tiltyard.reopen.minimising import Shrunk, pieces_of
from tiltyard.reopen.recording import recording_of

COLUMNS = 80
WORDS = " ".join(f"word{number}" for number in range(60))
"""Far more than a terminal's line."""

LONG = command_line("tasks", "check", *(f"mytasks/pinned/a-pin-of-many-{number}.yaml" for number in range(4)))


@pytest.fixture(autouse=True)
def on_no_data_folder() -> None:
    """Commands are short, whatever was called before."""
    call_on(None)


def too_wide(said: str, *commands: str) -> list[str]:
    """Lines wider than the terminal that are not just a command, in backquotes or not."""
    lines = [line for line in said.splitlines() if len(line) > COLUMNS]
    return [line for line in lines if line.strip().strip("`") not in commands]


def plain(said: str) -> str:
    return " ".join(said.split())


@pytest.mark.parametrize("quote", ["", "`"])
def test_a_command_stays_whole_and_what_is_said_before_it_does_not(quote: str) -> None:
    for command in (LONG, command_line("down")):
        text = f"{WORDS}: {quote}{command}{quote}"
        lines = list(folded(prose(text), COLUMNS))
        assert too_wide("\n".join(lines), command) == []
        assert any(command in line for line in lines)
        assert plain("\n".join(lines)) == text
        assert list(folded(prose(text), None)) == [text]


def test_what_is_said_after_a_command_is_folded_too() -> None:
    text = f"correct it; `{LONG}` says why; then {WORDS}"
    lines = list(folded(prose(text), COLUMNS))
    assert too_wide("\n".join(lines), LONG) == []
    assert plain("\n".join(lines)) == text


def test_a_command_alone_begins_no_line_of_nothing() -> None:
    assert list(folded(prose(LONG), COLUMNS)) == [LONG]
    assert list(folded([Line(LONG, 2)], COLUMNS)) == [f"  {LONG}"]


@pytest.mark.parametrize("width", range(24, 60))
def test_a_number_keeps_its_unit(width: int) -> None:
    text = "lease 0.034 s → turns 0.120 s → settle 0.011 s → drain 0.005 s → collect 0.031 s ∥ recycle"
    lines = list(folded([Line(text)], width))
    assert not any(line.lstrip().startswith("s") and not line.lstrip().startswith("settle") for line in lines)
    assert plain("\n".join(lines)) == text


@pytest.mark.parametrize("width", [40, 60, 80])
def test_json_ends_a_line_between_its_members(width: int) -> None:
    json = (
        '{"approval_id":"A-503","model":"aria-7","operation_id":"order-A-503","replacement_id":"R-1002","n":[1,2]}'
    )
    lines = list(folded([Line(f"outcome 'replaced': unexpected change: {json}", hang=8)], width))
    assert max(map(len, lines)) <= width
    assert "".join(line.strip() for line in lines).replace(" ", "") == f"outcome'replaced':unexpectedchange:{json}"
    assert any('"replacement_id":"R-1002"' in line for line in lines)
    assert any('"operation_id":"order-A-503"' in line for line in lines)


def test_what_an_episode_asks_is_folded_where_it_is_watched_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    status = status_line(EpisodeStatus(episode_id="e-1", phase="question", turns=4, question=WORDS))
    errors, answers = errors_on(monkeypatch, COLUMNS), answers_on(monkeypatch, COLUMNS)
    out = Output(as_json=False)
    out.note(status)
    show_lines(out, prose(status))
    monkeypatch.undo()
    for said in (errors.said(), answers.said()):
        assert too_wide(said) == []
        assert f"it asks: {WORDS}" in plain(said)


def test_an_error_is_folded_and_the_command_that_mends_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = errors_on(monkeypatch, COLUMNS)
    assert report(BadInput(WORDS, field="e-1", fix=f"see `{LONG}`")) == WRONG_USE
    monkeypatch.undo()
    said = terminal.said()
    assert too_wide(said, LONG) == []
    assert f"error: e-1: {WORDS}" in plain(said)
    assert LONG in said


def test_a_problem_of_a_task_file_is_folded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "mytasks" / "replacement"
    folder.mkdir(parents=True)
    (folder / "own.yaml").write_text("world: replacement\n" + "surprise: 1\n")
    terminal = answers_on(monkeypatch, COLUMNS)
    assert run_program(["--home", str(tmp_path / "home"), "tasks", "check", str(tmp_path / "mytasks")]) == WRONG_USE
    monkeypatch.undo()
    said = terminal.said()
    assert too_wide(said) == []
    assert "problem" in said


def test_a_reference_that_fails_tells_a_reason_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "mytasks" / "replacement"
    folder.mkdir(parents=True)
    shipped = (Path(__file__).parents[3] / "tasks" / "replacement" / "reply-lost.yaml").read_text()
    (folder / "reply-lost.yaml").write_text(shipped.replace("R-1001", "R-9999"))
    terminal = answers_on(monkeypatch, COLUMNS)
    assert run_program(["--home", str(tmp_path / "home"), "tasks", "check", str(tmp_path / "mytasks")]) == WRONG_USE
    monkeypatch.undo()
    said = terminal.said()
    assert too_wide(said) == []
    lines = [line.rstrip() for line in said.split("references.0: ")[1].splitlines()]
    told = lines[: lines.index("  to mend it: correct the reference, or what the contracts expect")]
    assert "    state: outcome 'replaced': replacements/R-9999 was not created as expected" in told
    assert '    answer: replacement_id is "R-1001", not "R-9999"' in told


def broken() -> Any:
    twice = pinned(LOST, "new_id_retry")
    first, *others = twice.expect.contracts
    other = first.model_copy(update={"why": (WORDS, *first.why[1:])})
    expect = twice.expect.model_copy(update={"contracts": (other, *others)})
    return held(twice.model_copy(update={"expect": expect}))


def test_a_pin_that_breaks_tells_each_reason_that_came_or_went_in_lines_of_its_own() -> None:
    found = broken()
    lines = list(folded(broken_lines(found), COLUMNS))
    assert too_wide("\n".join(lines)) == []
    (told,) = found.broken
    assert lines[0].startswith("expect.contracts.state: was failed, is failed for other reasons (")
    assert [line[:4] for line in lines if line[2:4] in ("- ", "+ ")] == ["  - ", "  + "]
    assert f"- {WORDS}" in plain("\n".join(lines))
    assert f"+ {told.come[0]}" in plain("\n".join(lines))
    assert "or something in the world that no call showed" in plain("\n".join(lines))


def test_what_minimise_says_is_a_reason_a_line() -> None:
    result, trace = outcome(LOST, open_script("new_id_retry", LOST))
    why = (WORDS, "another reason")
    wanted = ContractResult(name="state", kind="state", passed=False, why=why)
    recording = recording_of(trace)
    done = Minimised(
        wanted=wanted,
        before=recording,
        after=recording,
        found=Shrunk(kept=pieces_of(recording), runs=3, minimal=True),
        runs=3,
        spoilt=0,
        result=result.model_copy(update={"contracts": (wanted,)}),
    )
    lines = list(folded(lines_of(done, None), COLUMNS))
    assert too_wide("\n".join(lines)) == []
    assert lines[0] == "contract state still fails:"
    assert "  another reason" in lines
    assert plain("\n".join(lines)).endswith(f"to keep it: {command_line('episodes', 'pin', 'it')}")
