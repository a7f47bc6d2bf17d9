"""Errors in task files: each names the field, and how to mend it, in words that a person writes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from schemas.base import canonical
from schemas.task import Task
from tiltyard.errors import BadTask
from tiltyard.suite import shipped
from tiltyard.suite.explain import explain
from tiltyard.suite.reading import parse_yaml
from tiltyard.suite.remedies import NAMES

Path = tuple[str | int, ...]

SEVERAL = [
    json.loads(canonical(shipped().task(name)))
    for name in ("code-repair/repair/1", "replacement/approved/1", "replacement/reply-lost/1")
]
WRONG: list[Any] = [
    None,
    True,
    "256M",
    "",
    -1,
    0,
    1.5,
    10**30,
    1e300,
    "x y\0",
    [],
    ["x"],
    {},
    {"x": {"y": 1}},
]


def problems(fields: Any) -> tuple[BadTask, ...]:
    try:
        Task.model_validate(fields)
    except ValidationError as error:
        return explain(error)
    return ()


def changed(path: str, value: Any) -> list[str]:
    """What is said of the first code repair with one field changed."""
    fields = json.loads(canonical(SEVERAL[0]))
    *places, last = path.split("/")
    inner = fields
    for place in places:
        inner = inner[int(place) if isinstance(inner, list) else place]
    inner[last] = value
    return [str(one) for one in problems(fields)]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("sandbox/limits/memory_bytes", "256M", "write it in bytes: 268435456"),
        ("sandbox/limits/memory_bytes", "256 MiB", "write it in bytes: 268435456"),
        ("sandbox/limits/memory_bytes", "much", "write a whole number of bytes"),
        ("sandbox/limits/command_s", "2min", "write it in seconds: 120"),
        ("sandbox/limits/command_s", "1.5h", "write it in seconds: 5400"),
        ("sandbox/limits/cpu_s", 0.5, "write a whole number of seconds"),
        ("sandbox/limits/cpu_s", 0, "write at least 1"),
        ("sandbox/limits/processes", "64k", "write a whole number)"),
        ("sandbox/settle_s", 601, "write at most 600"),
        ("sandbox/on_loss", "restor", "did you mean restore?"),
        ("sandbox/on_loss", "x", "write restore or environment_error"),
        ("sandbox/normalise", ["duration"], "sandbox.normalise.0: Input should be 'durations'"),
        ("sandbox/environment", {"1 BAD=X": ""}, "environment.1 BAD=X: the name must be letters, digits and _"),
        ("contracts/0/timeout_s", 481, "contracts.0.timeout_s: Input should be less than or equal to 480 (write"),
        ("contracts/0/kind", "test", "did you mean tests?"),
        ("contracts/0/sources", [], "give at least 1"),
        ("contracts/0/idle_passes", "maybe", "write true or false"),
        ("id", "code-repair/Repair/1", "lower-case letters"),
        ("contracts", [], "contracts: it has too few entries (give at least 1)"),
        ("sandbox", [], "sandbox: it must be a mapping (write it as a mapping)"),
        ("sandbox/marked", "gone", "sandbox.marked: it must be a list (write it as a list)"),
        ("sandbox/marked", ["gone"], "sandbox.marked.0: 'gone' is not among files; add it there"),
        ("sandbox/exposes", {"desk": []}, "sandbox.exposes.desk: it has too few entries (give at least 1)"),
        ("sandbox/exposes", {"desk": ["wait"]}, "sandbox.exposes.desk: wait is the agent's alone; take it out"),
        ("sandbox/files", {"a": "", "a/b": ""}, "sandbox.files: 'a' is a file"),
        ("weights", {"completion": 1}, "weights: completion + process + efficiency must be 1"),
        ("id", "retail/repair/1", "id: must start with the world's name"),
        ("instruction", "", "write at least 1 characters"),
    ],
)  # fmt: skip
def test_the_remedy_is_in_the_words_of_a_task_file(path: str, value: Any, said: str) -> None:
    found = changed(path, value)
    assert any(said in one for one in found), found
    assert not any("[key]" in one or "^[" in one for one in found), found


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in a task, the inner ones too."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def with_wrong(value: Any, path: Path, wrong: Any) -> Any:
    if not path:
        return wrong
    made: Any = dict(value) if isinstance(value, dict) else list(value)
    made[path[0]] = with_wrong(value[path[0]], path[1:], wrong)
    return made


@pytest.mark.parametrize("fields", SEVERAL, ids=lambda fields: fields["id"])
def test_whatever_is_wrong_somewhere_has_a_remedy(fields: dict[str, Any]) -> None:
    """Of our own checks the message says it; of pydantic's there is one for each kind of error."""
    shapes = {tuple("#" if isinstance(part, int) else part for part in path): path for path in places(fields)}
    for path in shapes.values():
        if path[:2] == ("template", "params") or path[:1] == ("metadata",):
            continue
        for wrong in WRONG:
            try:
                Task.model_validate(with_wrong(fields, path, wrong))
            except ValidationError as error:
                kinds = {details["type"] for details in error.errors()}
                bare = [one for one in explain(error) if not one.fix]
                assert not bare or "value_error" in kinds, (path, wrong, kinds, [str(one) for one in bare])


def test_every_pattern_of_a_task_has_words() -> None:
    """A pattern that is none is told of as it is."""

    def patterns(schema: Any) -> Iterator[str]:
        if isinstance(schema, dict):
            yield from (str(value) for key, value in schema.items() if key == "pattern" and isinstance(value, str))
            yield from (key for key in schema.get("patternProperties", ()))
        for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
            yield from patterns(inner)

    assert set(patterns(Task.model_json_schema())) == set(NAMES)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2", "line 2, column 1: the key 'a' stands here twice (remove one of them)"),
        ("a: &x 1", "put the shared part in vars"),
        ("a: !x 1", "write plain text"),
        ("a: 1e999", "the number is out of range (write a smaller one, or put it in quotes)"),
        ("? [a]\n: 1", "a key must be plain text (write it as one word, or put it in quotes)"),
        ("a: b: c", "(mend the YAML there: "),
        ("a: [1", "(mend the YAML there: "),
        ("a: " + "[" * 5000, "is nested too deeply (make it less deep)"),
        ("\x00", "save it as UTF-8 text"),
        ('a: "\\ud800"', "holds half a character, \\ud800 (write the whole one)"),
        ('"\\U0000DC00": 1', "holds half a character, \\udc00 (write the whole one)"),
    ],
)
def test_what_cannot_be_read_says_how_to_mend_it(text: str, said: str) -> None:
    with pytest.raises(BadTask) as refused:
        parse_yaml(text.encode(), "file.yaml")
    assert said in str(refused.value)
    assert refused.value.fix


def test_a_path_that_is_marked_twice_is_refused_where_it_stands_again() -> None:
    fields = json.loads(canonical(SEVERAL[0]))
    (path, *_) = fields["sandbox"]["files"]
    fields["sandbox"]["marked"] = [path, path]
    (found,) = problems(fields)
    assert str(found) == f"sandbox.marked.1: {path!r} stands there already; take it out"
