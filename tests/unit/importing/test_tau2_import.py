"""Importing τ²-bench: what each kind of public task becomes, and what is said of it."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.episode import EpisodeResult
from schemas.imported import ImportedTask
from schemas.task import Reference, Step, Task
from tests.tau2_folder import (
    CANCEL,
    DELIVERED,
    FIND,
    LOOK,
    PENDING,
    POLICY,
    PRODUCT,
    SHOP,
    USER,
    action,
    all_kinds,
    task,
    write_folder,
)
from tiltyard.episode.grading import examine
from tiltyard.errors import BadInput
from tiltyard.importing.tau2 import Imported, import_tau2
from tiltyard.policies.plain import follow
from tiltyard.policies.script import ScriptPolicy
from tiltyard.suite.check import check_task
from tiltyard.suite.practice import practise
from tiltyard.suite.standing import Standing, standing
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.rehearse import rehearse
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.imported import WithImported, file_of, kept
from tiltyard.worlds.registry import worlds


class Made:
    """One import, its tasks by the names that the folder gave them, and an engine to play them on."""

    def __init__(self, folder: Path, tasks: list[dict[str, Any]]) -> None:
        self.imported = import_tau2(write_folder(folder, tasks), worlds())
        self.marks = {one.id.rsplit("/", 1)[1]: one for one in self.imported.report.tasks}
        self.tasks = tasks_of(self.imported)
        template = self.imported.template
        (folder / file_of(template.digest)).write_bytes(kept("retail", template))
        self.worlds = WithImported(worlds(), folder)
        self.engine = Engine(self.worlds, MemoryWorlds())

    def played(self, name: str, *steps: Step) -> EpisodeResult:
        """The result of these steps on a task."""
        policy = ScriptPolicy(follow(Reference(steps=steps)))
        evidence = asyncio.run(rehearse(self.tasks[name], policy, self.engine))
        return examine(self.tasks[name], evidence, self.engine.describe("retail"))


def tasks_of(imported: Imported) -> dict[str, Task]:
    variants = imported.file["variants"]
    assert isinstance(variants, dict)
    return {
        name: Task.model_validate({**fields, "id": f"retail/tau2/{name}", "world": "retail"})
        for name, fields in variants.items()
        if isinstance(fields, dict)
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("folder"), all_kinds())


def step(call: dict[str, Any], **arguments: Any) -> Step:
    return Step(tool=call["name"], arguments={**call["arguments"], **arguments})


def say(text: str) -> Step:
    return Step(submit={"message": text})


SCORABLE = [one["id"] for one in all_kinds() if one["id"] != "nothing"]


@pytest.mark.parametrize("name", SCORABLE)
def test_the_reference_completes_each_task_and_doing_nothing_completes_none(made: Made, name: str) -> None:
    assert check_task(made.tasks[name], made.worlds["retail"]) == ()
    assert practise(made.tasks[name], made.engine) == ()


def test_the_instruction_is_the_scenario_and_the_policy(made: Made) -> None:
    text = made.tasks["changed"].instruction
    for part in ("{{ this }} is no template", f"You are {USER['user_id']}.", "Be brief.", POLICY.strip()):
        assert part in text
    assert "None" not in text


def test_the_end_state_is_what_the_reference_comes_to(made: Made) -> None:
    state = made.tasks["changed"].contracts[0]
    assert state.kind == "state"
    (change,) = state.outcomes[0].changes
    assert (change.collection, change.key, change.change) == ("orders", PENDING["order_id"], "updated")
    assert isinstance(change.after, dict)
    before = SHOP["orders"][PENDING["order_id"]]
    assert change.after["status"] == "cancelled"
    assert change.after["items"] == before["items"]
    right = (step(FIND), step(CANCEL), say("Done."))
    assert made.played("changed", *right).score.completion == 1
    other = step(CANCEL, reason="ordered by mistake")
    assert made.played("changed", step(FIND), other, say("Done.")).score.completion == 0
    more = step(action("modify_user_address", user_id=USER["user_id"], **{**USER["address"], "city": "X"}))
    assert made.played("changed", step(CANCEL), more, say("Done.")).score.completion == 0


@pytest.mark.parametrize(
    ("message", "completion"),
    [
        (f"It is a {PRODUCT['name']} at $1481.5.", 1),
        (f"It is a {PRODUCT['name'].lower()}: 1,481.50 dollars", 1),
        (f"It is a {PRODUCT['name']}.", 0),
        (f"It is a {PRODUCT['name']} at 11481.50", 0),
        ("It is at 1481.50", 0),
    ],
)
def test_facts_must_be_told(made: Made, message: str, completion: int) -> None:
    assert made.played("told", step(LOOK), say(message)).score.completion == completion


def test_a_refused_step_of_the_reference_is_recorded(made: Made) -> None:
    assert [one.fails for one in made.tasks["stumbling"].references[0].steps] == [True, False, False]
    (failing,) = made.marks["stumbling"].failing_steps
    assert (failing.step, failing.tool, failing.code) == (1, "find_user_id_by_email", "not_found")
    assert made.tasks["stumbling"].metadata["failing_steps"] == [failing.model_dump()]
    assert made.marks["changed"].failing_steps == ()


@pytest.mark.parametrize(
    ("name", "required"),
    [
        ("refused", ["cancel_pending_order"]),
        ("handed-over", ["transfer_to_human_agents"]),
        ("looked", ["find_user_id_by_name_zip", "get_product_details"]),
        ("there-and-back", ["modify_user_address", "modify_user_address"]),
    ],
)
def test_where_nothing_changes_and_nothing_is_told_calls_are_asked_for(
    made: Made, name: str, required: list[str]
) -> None:
    process = made.tasks[name].contracts[-1]
    assert process.kind == "process"
    assert [rule.call.tool for rule in process.rules if rule.call] == required
    assert standing(made.tasks[name]) is Standing.IDLE_PASSES
    assert made.marks[name].idle_passes
    assert made.played(name, say("I have done everything.")).score.completion == 0


def test_a_transfer_is_asked_for_in_whatever_words(made: Made) -> None:
    other = Step(tool="transfer_to_human_agents", arguments={"summary": "Please help."})
    assert made.played("handed-over", other, say("You are transferred.")).score.completion == 1


def test_the_attempted_write_must_be_that_of_the_reference(made: Made) -> None:
    right = Step(
        tool="cancel_pending_order", arguments={"order_id": DELIVERED["order_id"], "reason": "no longer needed"}
    )
    assert made.played("refused", right, say("It cannot be.")).score.completion == 1
    wrong = Step(tool="cancel_pending_order", arguments={"order_id": "#none", "reason": "no longer needed"})
    assert made.played("refused", wrong, say("It cannot be.")).score.completion == 0


def test_a_task_without_actions_and_facts_is_never_completed_nor_counted(made: Made) -> None:
    assert "neither an action nor a fact" in made.marks["nothing"].unscorable
    assert standing(made.tasks["nothing"]) is Standing.UNSCORABLE
    assert practise(made.tasks["nothing"], made.engine) == ()
    for steps in ((say("Done."),), (step(LOOK), say("Done.")), (Step(give_up="no"),)):
        assert made.played("nothing", *steps).score.completion == 0


def test_a_reference_that_makes_no_call_is_marked_and_its_task_counts(made: Made) -> None:
    """It scores nothing for how it worked; whoever looks up what is told is not held to that."""
    assert [name for name, mark in made.marks.items() if mark.no_call] == ["only-told"]
    assert [name for name, task in made.tasks.items() if task.metadata.get("no_call")] == ["only-told"]
    assert standing(made.tasks["only-told"]) is Standing.COUNTED
    reference = made.played("only-told", say("polyester")).score
    assert (reference.completion, reference.process, reference.efficiency) == (1, 0, 1)
    assert made.played("only-told", step(LOOK), step(FIND), say("polyester")).score.total == 1
    assert made.played("only-told", Step(give_up="no")).score.total == 0


def test_every_task_is_in_one_list_of_the_report(made: Made) -> None:
    report = made.imported.report
    assert report.counted == 4
    assert [one.id for one in report.idle_passes] == [
        f"retail/tau2/{name}" for name in ("refused", "handed-over", "looked", "there-and-back")
    ]
    assert [one.id for one in report.unscorable] == ["retail/tau2/nothing"]
    assert [one.id for one in report.with_failing_steps] == ["retail/tau2/stumbling", "retail/tau2/refused"]


def marked(folder: Path, *tasks: dict[str, Any]) -> list[ImportedTask]:
    return list(import_tau2(write_folder(folder, list(tasks)), worlds()).report.tasks)


def criteria(**fields: Any) -> dict[str, Any]:
    return {"evaluation_criteria": {"actions": [CANCEL], **fields}}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"evaluation_criteria": None}, "neither an action"),
        ({"evaluation_criteria": {"actions": None}}, "neither an action"),
        ({"initial_state": {"initialization_data": {"agent_data": {"x": 1}}}}, "initial_state"),
        (criteria(env_assertions=[{"func_name": "f", "env_type": "assistant", "arguments": {}}]), "env_assertions"),
        (criteria(actions=[{**CANCEL, "requestor": "user"}]), "the user"),
    ],
)
def test_what_cannot_be_judged_says_why(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    (mark,) = marked(tmp_path, task("odd", CANCEL, **fields))
    assert reason in mark.unscorable


def test_what_a_real_folder_has_besides_is_no_hindrance(tmp_path: Path) -> None:
    plain = {"persona": "A hasty person.", "instructions": "You want your order gone."}
    empty = {"initialization_data": None, "initialization_actions": None, "message_history": None}
    odd = task("[hard]Task One", CANCEL, user_scenario=plain, initial_state=empty, issues=[{"id": "i"}])
    odd["evaluation_criteria"]["nl_assertions"] = ["The agent is polite."]
    numbered = task("x", CANCEL) | {"id": 7}
    made = import_tau2(write_folder(tmp_path, [odd, numbered]), worlds())
    assert [one.id for one in made.report.tasks] == ["retail/tau2/hard-task-one", "retail/tau2/7"]
    first = tasks_of(made)["hard-task-one"]
    assert "You want your order gone.\nWho you are: A hasty person." in first.instruction
    assert first.metadata["source_id"] == "[hard]Task One"
    assert (first.metadata["nl_assertions"], made.report.tasks[0].ungraded) == (["The agent is polite."], 1)


def test_actions_that_are_themselves_the_criterion_are_all_required(tmp_path: Path) -> None:
    strict = task("strict", FIND, CANCEL)
    strict["evaluation_criteria"]["reward_basis"] = ["DB", "ACTION"]
    strict["evaluation_criteria"]["actions"][0] = {**FIND, "compare_args": ["zip"]}
    made = Made(tmp_path, [strict])
    assert practise(made.tasks["strict"], made.engine) == ()
    assert made.played("strict", step(CANCEL), say("Done.")).score.completion == 0
    other_name = step(FIND, first_name="Somebody")
    assert made.played("strict", other_name, step(CANCEL), say("Done.")).score.completion == 1


def test_budgets_grow_with_the_reference(tmp_path: Path) -> None:
    made = Made(tmp_path, [task("long", *[LOOK if n % 2 else FIND for n in range(150)], CANCEL)])
    assert practise(made.tasks["long"], made.engine) == ()


def test_a_domain_without_our_tools_is_refused_with_the_list_of_them(tmp_path: Path) -> None:
    flights = [task("a", FIND, action("book_flight")), task("b", action("cancel_flight"), action("book_flight"))]
    with pytest.raises(BadInput, match="retail lacks book_flight, cancel_flight") as error:
        import_tau2(write_folder(tmp_path, flights), worlds())
    assert error.value.field == "tasks.json: evaluation_criteria.actions"
    assert "retail" in error.value.fix


def bad(edit: Any) -> str:
    made = task("one", CANCEL)
    edit(made)
    return json.dumps([made])


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ("[", "tasks.json", "Invalid JSON"),
        ("{}", "tasks.json", "valid array"),
        ("[]", "tasks.json", "no tasks"),
        ("[1]", "tasks.json: 0", "an object"),
        (bad(lambda t: t.pop("id")), "tasks.json: 0.id", "required"),
        (bad(lambda t: t.update(id="???")), "tasks.json: 0.id", "no letter"),
        (bad(lambda t: t.pop("user_scenario")), "tasks.json: 0.user_scenario", "required"),
        (
            bad(lambda t: t["user_scenario"]["instructions"].update(reason_for_call=" ")),
            "tasks.json: 0.user_scenario.instructions.reason_for_call",
            "at least 1",
        ),
        (
            bad(lambda t: t["user_scenario"].update(instructions=5)),
            "tasks.json: 0.user_scenario.instructions",
            "an object",
        ),
        (
            bad(lambda t: t["evaluation_criteria"]["actions"][0].pop("arguments")),
            "tasks.json: 0.evaluation_criteria.actions.0.arguments",
            "required",
        ),
        (
            bad(lambda t: t["evaluation_criteria"].update(communicate_info=["a", ""])),
            "tasks.json: 0.evaluation_criteria.communicate_info.1",
            "at least 1",
        ),
        (
            bad(lambda t: t["evaluation_criteria"]["actions"][0]["arguments"].update(x=float("nan"))),
            "tasks.json: 0",
            "JSON text",
        ),
        ('[{"id": "a", "id": "b"}]', "tasks.json", "'id' stands here twice"),
        (json.dumps([task("A b"), task("a-b")]), "tasks.json: 1.id", "'a-b' again"),
        (json.dumps([task("a"), task("b"), task("a")]), "tasks.json: 2.id", "id of task 0"),
    ],
)
def test_bad_tasks_are_named_with_the_place_and_the_fix(tmp_path: Path, text: str, field: str, says: str) -> None:
    with pytest.raises(BadInput, match=says) as error:
        import_tau2(write_folder(tmp_path, text), worlds())
    assert error.value.field == field
    assert error.value.fix


@pytest.mark.parametrize("name", ["db.json", "tasks.json", "policy.md"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    (write_folder(tmp_path, all_kinds()) / name).unlink()
    with pytest.raises(BadInput, match="cannot read") as error:
        import_tau2(tmp_path, worlds())
    assert (error.value.field, error.value.fix) == (name, "name a folder with db.json, tasks.json and policy.md")


@pytest.mark.parametrize("name", ["db.json", "tasks.json", "policy.md"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_is_never_waited_for(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    place = write_folder(tmp_path, all_kinds()) / name
    place.unlink()
    make(place)
    with pytest.raises(BadInput, match="no regular file") as error:
        import_tau2(tmp_path, worlds())
    assert error.value.field == name


def test_data_in_which_a_key_stands_twice_is_refused(tmp_path: Path) -> None:
    """Of two orders with one number, one would be gone unseen."""
    folder = write_folder(tmp_path, all_kinds())
    text = (folder / "db.json").read_text()
    (folder / "db.json").write_text('{"users": {}, ' + text[1:])
    with pytest.raises(BadInput, match="'users' stands here twice") as error:
        import_tau2(folder, worlds())
    assert error.value.field == "db.json"


def test_bad_data_and_a_bad_policy_are_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, all_kinds())
    (folder / "db.json").write_text(json.dumps({**SHOP, "orders": {"#1": {}}}))
    with pytest.raises(BadInput) as error:
        import_tau2(folder, worlds())
    assert error.value.field.startswith("db.json: orders.#1")
    (write_folder(tmp_path, all_kinds()) / "policy.md").write_bytes(b"\xff")
    with pytest.raises(BadInput, match="UTF-8") as error:
        import_tau2(folder, worlds())
    assert error.value.field == "policy.md"


def test_the_same_folder_gives_the_same_tasks_wherever_it_is(tmp_path: Path) -> None:
    one, two = (import_tau2(write_folder(tmp_path / name, all_kinds()), worlds()) for name in ("one", "two"))
    assert one == two
    assert str(tmp_path) not in json.dumps(one.file)
