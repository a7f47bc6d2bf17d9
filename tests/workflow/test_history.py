"""Workflow history grows with slices, not with bytes (I10), and a long episode continues as new."""

from collections import defaultdict
from pathlib import Path
from statistics import median

import pytest
from temporalio.client import Client, WorkflowHandle

from schemas.contract import AnswerContract
from schemas.decision import Decision
from schemas.episode import End
from schemas.slice import Summary
from schemas.start import Tuning
from schemas.task import Limits, Reference, Step, Task
from schemas.view import View
from tests.workflow.arena import arena, calls
from tiltyard.testing.memory_policies import Act
from tiltyard.worlds.kit import State, Template, WorldKind, tool
from workflows.episode import EpisodeWorkflow

TURNS = 20


@tool()
def blob(state: State, size: int, turn: int) -> str:
    """A text of that many characters."""
    return "x" * size


BLOBS = WorldKind.of("blobs", "Texts of any size.", (blob,), lambda name, params: Template.of({}))


def blobs_task(limits: Limits) -> Task:
    return Task(
        id="blobs/read/1",
        world="blobs",
        instruction="Read.",
        limits=limits,
        contracts=(AnswerContract(looked_up=("blob",)),),
        references=(Reference(steps=(Step(submit={}),)),),
    )


def reading(size: int, turns: int) -> Act:
    def act(view: View) -> Decision:
        return Decision(submit={}) if view.turn == turns else calls("blob", size=size, turn=view.turn)

    return act


async def bytes_per_slice(handle: WorkflowHandle[EpisodeWorkflow, Summary]) -> float:
    """History bytes that one slice adds: for each type of event of a slice, the median size.

    A median, because a slow machine adds events that have nothing to do with observations.
    """
    sizes: dict[int, list[int]] = defaultdict(list)
    for event in (await handle.fetch_history()).events:
        sizes[event.event_type].append(event.ByteSize())
    return sum(median(found) for found in sizes.values() if len(found) >= TURNS)


async def test_history_bytes_per_slice_do_not_grow_with_observations(client: Client, tmp_path: Path) -> None:
    sizes = {"1 KB": 1_000, "1 MB": 1_000_000}
    policies = {name: reading(size, TURNS) for name, size in sizes.items()}
    measured: dict[str, float] = {}
    async with arena(client, policies, tmp_path, BLOBS) as place, place.worker():
        for name in sizes:
            limits = Limits(turns=TURNS + 1, observation_bytes=2_000_000)
            spec = await place.plan(blobs_task(limits), name)
            handle = await place.start(spec, Tuning(slice_turns=1))
            await handle.result()
            assert (await place.outcome(spec)).end is End.SUBMITTED
            measured[name] = await bytes_per_slice(handle)
    print(f"history bytes per slice: {measured}")
    assert abs(measured["1 MB"] / measured["1 KB"] - 1) < 0.01  # ids and times differ by a few bytes


@pytest.mark.parametrize(
    ("turns", "slices_per_run"),
    [pytest.param(250, 100, id="250 turns"), pytest.param(1_000, 400, id="1000 turns", marks=pytest.mark.chaos)],
)
async def test_turns_in_slices_of_one_continue_as_new(
    client: Client, tmp_path: Path, turns: int, slices_per_run: int
) -> None:
    async with arena(client, {"long": reading(100, turns - 1)}, tmp_path, BLOBS) as place, place.worker():
        spec = await place.plan(blobs_task(Limits(turns=turns + 10, tool_calls=turns + 10)), "long")
        handle = await place.start(spec, Tuning(slice_turns=1, slices_per_run=slices_per_run))
        await handle.result()
        result = await place.outcome(spec)
        assert (result.end, result.counts.turns) == (End.SUBMITTED, turns)
        runs = await _runs(client, handle.id)
        assert runs == 3
        await place.assert_nothing_left(spec)


async def _runs(client: Client, workflow_id: str) -> int:
    """The runs of a chain, followed from the newest to the first."""
    run_id, runs = (await client.get_workflow_handle(workflow_id).describe()).run_id, 0
    while run_id:
        runs += 1
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        run_id = history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return runs
