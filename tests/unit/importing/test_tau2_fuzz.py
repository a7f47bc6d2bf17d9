"""Whatever a folder of tasks holds: it is imported into sound tasks, or refused with the place in it."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tau2_folder import all_kinds, write_folder
from tiltyard.errors import BadInput
from tiltyard.importing.tau2 import Imported, import_tau2
from tiltyard.suite.check import check_task
from tiltyard.suite.families import Suite, load_suite
from tiltyard.suite.practice import practise
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.imported import WithImported, file_of, kept
from tiltyard.worlds.registry import worlds

TASKS = all_kinds()

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["${steps.a.b}", "{{ x }}", "", " ", "$", "\ud800", "../..", "1,000.0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, item in items for found in places(item, (*path, key)))]


@st.composite
def spoilt(draw: st.DrawFn) -> Any:
    """The good tasks with one to three places replaced by anything."""
    tasks: Any = copy.deepcopy(TASKS)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(tasks)[1:]))
        inner = tasks
        for part in path[:-1]:
            inner = inner[part]
        inner[path[-1]] = draw(ANYTHING)
        if not isinstance(tasks, list) or not places(tasks)[1:]:
            break
    return tasks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all examples, each of which writes its own tasks."""
    return tmp_path_factory.mktemp("folder")


@pytest.fixture(scope="module")
def known(folder: Path) -> set[str]:
    """Digests of the good tasks, which are played elsewhere."""
    made = import_tau2(write_folder(folder, TASKS), worlds())
    return {task.digest for task in suite_of(folder, made).match(["*"])}


def suite_of(folder: Path, made: Imported) -> Suite:
    place = folder / made.world / f"{made.family}.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(made.file))
    return load_suite(place)


def imported_or_why(folder: Path) -> Imported | BadInput:
    try:
        return import_tau2(folder, worlds())
    except BadInput as error:
        return error


@settings(max_examples=60, deadline=None)
@given(tasks=spoilt())
def test_any_tasks_are_imported_soundly_or_refused_by_name(folder: Path, known: set[str], tasks: Any) -> None:
    write_folder(folder, json.dumps(tasks))
    made = imported_or_why(folder)
    if isinstance(made, BadInput):
        assert made.field.startswith("tasks.json")
        assert made.message
        assert made.fix
        return
    (folder / file_of(made.template.digest)).write_bytes(kept(made.world, made.template))
    suite = suite_of(folder, made)
    kinds = WithImported(worlds(), folder)
    engine = Engine(kinds, MemoryWorlds())
    assert set(suite.ids) == {mark.id for mark in made.report.tasks}
    for task in suite.match(["*"]):
        if task.digest not in known:
            assert check_task(task, kinds[made.world]) == ()
            assert practise(task, engine) == ()


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_refused_by_name(folder: Path, data: bytes) -> None:
    (write_folder(folder, []) / "tasks.json").write_bytes(data)
    with pytest.raises(BadInput) as error:
        import_tau2(folder, worlds())
    assert error.value.field.startswith("tasks.json")
