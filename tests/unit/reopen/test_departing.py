"""What an episode has other than the one it was made from, and where a shipped script begins in a fork."""

import asyncio
from collections.abc import Sequence

import pytest

from schemas.episode import EpisodeSpec, Origin, PolicySpec
from schemas.fault import Fault
from schemas.replay import Differing
from schemas.task import Limits, Task, Weights
from tests.unit.reopen.played import played
from tiltyard.episode.tasks import TaskShelf
from tiltyard.policies.catalogue import SCRIPTS
from tiltyard.reopen.changing import changed
from tiltyard.reopen.departing import began_at, departures, tasks_differ
from tiltyard.testing.memory_objects import MemoryObjects
from tiltyard.testing.memory_records import MemoryRecords
from tiltyard.trace import Trace

LOST = "replacement/reply-lost/1"
TASK = played(LOST, "reconcile")[0].task
PARENT = played(LOST, "reconcile")[0].evidence.spec


def told(found: Sequence[Differing]) -> list[str]:
    return [f"{one.what}: {one.left} -> {one.right}" for one in found]


def test_each_part_of_a_task_that_differs_is_named_and_no_other() -> None:
    assert tasks_differ(TASK, TASK) == ()
    fewer = TASK.model_copy(
        update={
            "limits": TASK.limits.model_copy(update={"turns": 9}),
            "weights": Weights(completion=0.6, process=0.2, efficiency=0.2),
        }
    )
    turns, weight = TASK.limits.turns, TASK.weights.completion
    assert told(tasks_differ(TASK, fewer))[:2] == [
        f"limits.turns: {turns} -> 9",
        f"weights.completion: {weight} -> 0.6",
    ]


def test_one_of_several_is_told_by_its_number_and_faults_by_a_sentence() -> None:
    fault = Fault(tool="get_ticket", kind="error_status", code="busy", message="later")
    other = TASK.model_copy(
        update={"faults": (*TASK.faults, fault), "contracts": TASK.contracts[:-1]},
    )
    lines = told(tasks_differ(TASK, other))
    assert f"faults.{len(TASK.faults)}: none -> error_status of get_ticket at every call (busy: later)" in lines
    assert [line.split(":")[0] for line in lines if line.startswith("contracts")] == [
        f"contracts.{len(TASK.contracts) - 1}"
    ]


def test_of_long_texts_the_place_is_shown_where_they_part() -> None:
    long = "Send the customer another phone, but only one that is approved. " * 9
    one, other = (TASK.model_copy(update={"instruction": f"{long}{end}"}) for end in ("At once.", "Tomorrow."))
    (found,) = tasks_differ(one, other)
    assert found.what == "instruction"
    assert found.left.startswith("…")
    assert found.left.endswith("At once.")
    assert found.right.endswith("Tomorrow.")


def test_a_text_of_several_lines_stands_in_one() -> None:
    one, other = (TASK.model_copy(update={"instruction": text}) for text in ("Look.\nThen go.", "Look."))
    assert told(tasks_differ(one, other)) == ["instruction: Look.\\nThen go. -> Look."]


def departed(origin: Origin | None, **own: object) -> list[str]:
    """What is told of an episode that was made from the parent, which has the plain task."""

    async def ask() -> list[str]:
        records, shelf = MemoryRecords(), TaskShelf(MemoryObjects())
        parent = PARENT.model_copy(update={"task_digest": await shelf.store(TASK)})
        task = own.pop("task", TASK)
        assert isinstance(task, Task)
        await records.plan([parent])
        spec = parent.model_copy(
            update={"episode_id": "made", "origin": origin, "task_digest": await shelf.store(task), **own}
        )
        return told(await departures(spec, task, records, shelf))

    return asyncio.run(ask())


FORK = Origin(kind="fork", episode_id=PARENT.episode_id, turn=2)


def test_a_fork_tells_all_that_was_not_its_parent_s() -> None:
    assert departed(None) == departed(FORK) == []
    other = changed(TASK, instruction="Do nothing.", limits={"turns": 60}, faults=())
    found = departed(FORK, task=other, seed=7, policy=PolicySpec(target="handoff"), sandbox="docker")
    assert [line.split(":")[0] for line in found] == [
        *("policy", "seed", "sandbox", "instruction", "limits.turns"),
        *(f"faults.{number}" for number in range(len(TASK.faults))),
    ]
    assert f"limits.turns: {TASK.limits.turns} -> 60" in found
    assert f"seed: {PARENT.seed} -> 7" in found
    assert f"policy: {PARENT.policy.target} -> handoff" in found


def test_a_policy_of_the_same_name_and_other_source_is_another_one() -> None:
    policy = PARENT.policy.model_copy(update={"digest": "sha256:1234"})
    name, digest = PARENT.policy.target, PARENT.policy.digest
    assert departed(FORK, policy=policy) == [f"policy: {name} of {digest} -> {name} of sha256:1234"]


def test_a_replay_is_played_from_a_recording_and_that_is_no_difference() -> None:
    replay = Origin(kind="replay", episode_id=PARENT.episode_id)
    assert departed(replay, policy=PolicySpec(target="recorded", digest="sha256:1")) == []
    other = changed(TASK, limits={"turns": 60})
    assert departed(replay, task=other) == [f"limits.turns: {TASK.limits.turns} -> 60"]


def test_of_a_parent_that_is_gone_nothing_is_told() -> None:
    assert departed(Origin(kind="fork", episode_id="gone", turn=2), seed=99) == []


def test_of_a_task_that_is_gone_its_digest_is_told() -> None:
    async def ask() -> list[str]:
        records = MemoryRecords()
        await records.plan([PARENT])
        spec = PARENT.model_copy(update={"episode_id": "made", "origin": FORK, "task_digest": "sha256:other"})
        return told(await departures(spec, TASK, records, TaskShelf(MemoryObjects())))

    assert asyncio.run(ask()) == [f"task digest: {PARENT.task_digest} -> sha256:other"]


def fork(of: str, by: str, turn: int, **own: object) -> Trace:
    """A fork of ``of``, as far as its beginning says: the turns before ``turn`` are its parent's."""
    trace = played(LOST, of)[0]
    origin = Origin(kind="fork", episode_id="parent", turn=turn)
    spec = EpisodeSpec.model_validate(
        {**dict(trace.evidence.spec), "origin": origin, "policy": PolicySpec(target=by), **own}
    )
    return Trace(trace.task, trace.tools, trace.evidence.model_copy(update={"spec": spec}))


def test_a_script_begins_after_turns_that_are_not_its_own() -> None:
    assert began_at(fork("unapproved_write", "reference", 2)) == 2


def test_a_script_goes_on_from_turns_that_it_would_have_taken_itself() -> None:
    """Up to the lost reply both clerks do the same."""
    assert began_at(fork("new_id_retry", "reconcile", 5)) is None
    assert began_at(fork("reconcile", "reconcile", 6)) is None


def test_with_another_seed_its_own_effects_are_those_of_somebody_else() -> None:
    assert began_at(fork("reconcile", "reconcile", 5, seed=PARENT.seed + 1)) == 5


@pytest.mark.parametrize("policy", [PolicySpec(target="mine:act", directory="/x"), PolicySpec(target="mine:act")])
def test_of_a_policy_of_one_s_own_nobody_knows(policy: PolicySpec) -> None:
    assert began_at(fork("reconcile", "reconcile", 5, policy=policy)) is None
    assert began_at(fork("unapproved_write", "reference", 2, policy=policy)) is None


def test_whatever_is_no_fork_begins_with_itself() -> None:
    assert [began_at(fork("unapproved_write", name, 0)) for name in SCRIPTS] == [None] * len(SCRIPTS)
    replay = Origin(kind="replay", episode_id="e", turn=2)
    assert began_at(fork("unapproved_write", "recorded", 2, origin=replay)) is None


def test_limits_that_are_alike_are_no_difference() -> None:
    assert tasks_differ(TASK, TASK.model_copy(update={"limits": Limits(**dict(TASK.limits))})) == ()
