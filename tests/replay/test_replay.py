"""Saved workflow histories replay against the current code: a running episode survives an upgrade."""

import json
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory

from schemas.episode import End
from tests.replay.record import HISTORIES, KINDS, saved_of
from tests.workflow.broken_episodes import OtherEpisode
from workers.assembly import WORKFLOWS, workflow_runner
from workers.histories import problem_of, read_document

SAVED = sorted(HISTORIES.glob("*.json"))

OF_EPISODES = [path for path in SAVED if path.stem in ("submitted", "terminated", "waited", "host_lost.episode")]

WAYS_TO_CLOSE = {"COMPLETED", "FAILED", "CANCELED", "TERMINATED", "TIMED_OUT", "CONTINUED_AS_NEW"}
"""Of a workflow, as the server knows them."""


def saved(path: Path) -> WorkflowHistory:
    return read_document(json.loads(path.read_text()))


async def problem(path: Path, workflows: Sequence[type] = WORKFLOWS) -> str:
    return await problem_of(saved(path), workflows, workflow_runner())


def test_every_kind_is_saved_and_nothing_else() -> None:
    known = {kind.__name__: saved_of(kind.__name__) for kind in KINDS}
    assert [name for name, paths in known.items() if not paths] == []
    assert sorted(path for paths in known.values() for path in paths) == SAVED


def test_every_way_to_close_is_saved() -> None:
    closed = {_last_event(path)["eventType"].removeprefix("EVENT_TYPE_WORKFLOW_EXECUTION_") for path in SAVED}
    assert closed == WAYS_TO_CLOSE


def test_every_end_of_an_episode_is_saved() -> None:
    """The outcome of a terminated one is the janitor's doing: it is among the results of those that reclaim."""
    results = [_result(_last_event(path)) for path in SAVED]
    assert {one["end"] for one in results if "end" in one} >= {end.value for end in End}


def _last_event(path: Path) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(path.read_text())["history"]["events"][-1]
    return event


def _result(event: dict[str, Any]) -> dict[str, Any]:
    closing = event.get("workflowExecutionCompletedEventAttributes", {})
    payloads = closing.get("result", {}).get("payloads", [])
    found: dict[str, Any] = json.loads(b64decode(payloads[0]["data"])) if payloads else {}
    return found


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
async def test_a_saved_history_replays(path: Path) -> None:
    assert await problem(path) == ""


@pytest.mark.parametrize("path", OF_EPISODES, ids=lambda path: path.stem)
async def test_an_incompatible_change_is_caught(path: Path) -> None:
    """Whichever way the episode went."""
    assert "Timer machine does not handle this event" in await problem(path, (OtherEpisode, *WORKFLOWS[1:]))


def test_histories_hold_nothing_of_the_machine_that_recorded_them() -> None:
    for path in SAVED:
        text = path.read_text()
        assert str(Path.home()) not in text
        assert "site-packages" not in text
        assert "/tmp/" not in text
