"""Saved workflow histories replay against the current code: a running episode survives an upgrade."""

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from tests.replay.record import HISTORIES, KINDS
from tests.workflow.broken_episodes import OtherEpisode
from workers.assembly import WORKFLOWS, workflow_runner

SAVED = sorted(HISTORIES.glob("*.json"))


def saved(path: Path) -> WorkflowHistory:
    document = json.loads(path.read_text())
    return WorkflowHistory.from_json(document["workflow_id"], document["history"])


def replayer(*workflows: type) -> Replayer:
    return Replayer(workflows=workflows, data_converter=pydantic_data_converter, workflow_runner=workflow_runner())


def test_every_kind_is_saved() -> None:
    assert {path.stem for path in SAVED} == {kind.__name__ for kind in KINDS}


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
async def test_a_saved_history_replays(path: Path) -> None:
    await replayer(*WORKFLOWS).replay_workflow(saved(path))


async def test_an_incompatible_change_is_caught() -> None:
    path = next(path for path in SAVED if path.stem == "submitted")
    with pytest.raises(NondeterminismError):
        await replayer(OtherEpisode, *WORKFLOWS[1:]).replay_workflow(saved(path))


def test_histories_hold_nothing_of_the_machine_that_recorded_them() -> None:
    for path in SAVED:
        text = path.read_text()
        assert str(Path.home()) not in text
        assert "site-packages" not in text
