"""Task files: what a good one becomes, and what is said of a bad one."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.base import JsonObject, JsonValue
from tiltyard.errors import BadInput, BadTask
from tiltyard.suite import Suite, load_suite
from tiltyard.suite.reading import MAX_FILE_BYTES, parse_yaml

GOOD = """
family: lamps
world: shop
vars:
  lamp: L-1
  who: Ada
  colour: "{{ 'red' if n > 1 else 'blue' }}"
  steps:
    - {name: look, tool: look_up, arguments: {lamp: "{{ lamp }}"}}
    - {submit: {lamp: "${steps.look.lamp}", n: "{{ n }}"}}
instruction: "{{ who }} wants {{ n }} of lamp {{ lamp }} in {{ colour }}."
template: {params: {count: "{{ n * 2 }}", zip: 02134, note: "{{ n }}"}}
limits: {turns: 10, tool_calls: 20}
contracts:
  - kind: answer
    accept: [{lamp: "{{ lamp }}", n: "{{ n }}"}]
references:
  - steps: "{{ steps }}"
variants:
  1: {vars: {n: 1}}
  2:
    vars: {n: 2, who: Grace}
    limits: {turns: 5}
"""


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str], Suite]:
    def write(text: str) -> Suite:
        (tmp_path / "shop").mkdir(exist_ok=True)
        (tmp_path / "shop" / "lamps.yaml").write_text(textwrap.dedent(text), encoding="utf-8")
        return load_suite(tmp_path)

    return write


Place = Callable[[str], Suite]


def test_variants_are_merged_and_rendered_with_the_types_of_their_values(place: Place) -> None:
    one, two = place(GOOD).match(["shop"])
    assert (one.id, two.id) == ("shop/lamps/1", "shop/lamps/2")
    assert one.instruction == "Ada wants 1 of lamp L-1 in blue."
    assert two.instruction == "Grace wants 2 of lamp L-1 in red."
    assert two.template.params == {"count": 4, "zip": "02134", "note": 2}
    assert (two.limits.turns, two.limits.tool_calls) == (5, 20)
    assert two.references[0].steps[1].submit == {"lamp": "${steps.look.lamp}", "n": 2}
    assert one.digest != two.digest


@pytest.mark.parametrize(
    ("old", "new", "field", "says"),
    [
        ("turns: 10", "tuns: 10", "shop/lamps.yaml: variant 1: limits.tuns", "did you mean turns?"),
        ("turns: 10", "turns: none", "variant 1: limits.turns", "valid integer"),
        ("kind: answer", "kind: anwser", "variant 1: contracts.0", "'state', 'receipts'"),
        ("accept: [", "acept: [", "variant 1: contracts.0.acept", "did you mean accept?"),
        ("{{ who }} wants", "{{ whom }} wants", "variant 1: instruction", "unknown variable 'whom' (known vars: "),
        ("{{ who }} wants", "{{ who wants", "variant 1: instruction", "bad Jinja"),
        ("{{ who }} wants", "{{ who.age }} wants", "variant 1: instruction", "age"),
        ("{{ n * 2 }}", "{{ who * 2 }}", "variant 1: template.params.count", "* works on numbers only"),
        ("{{ n * 2 }}", "{{ n / 0 }}", "variant 1: template.params.count", "division by zero"),
        ("{{ n * 2 }}", "{{ 9 ** 9 ** 9 }}", "variant 1: template.params.count", "'pow' is not used"),
        ("{{ n * 2 }}", "{{ who.upper() }}", "variant 1: template.params.count", "'call' is not used"),
        ("{{ n * 2 }}", "{% for a in who %}a{% endfor %}", "variant 1: template.params.count", "'for' is not"),
        ("  who: Ada", "  who: '{{ lamp }}'\n  lamp2: '{{ lamp3 }}'\n  lamp3: '{{ lamp2 }}'", "vars", "circle"),
        ("  who: Ada", "  who: Ada\n  who: Eve", "shop/lamps.yaml: line 7, column 3", "'who' stands here twice"),
        ("  who: Ada", "  who: &a Ada", "line 6, column 8", "anchors"),
        ("  who: Ada", "  who: !!python/name:os.system x", "line 6, column 8", "not allowed"),
        ("  who: Ada", "  who: [Ada", "shop/lamps.yaml: line", "expected"),
        ("  who: Ada", "  who: 1e999", "line 6, column 8", "out of range"),
        ("world: shop", "world: shed", "shop/lamps.yaml: world", "the file's place says 'shop'"),
        ("  1: {vars: {n: 1}}", "  1: [n]", "variants.1", "is not a mapping"),
        ("  1: {vars: {n: 1}}", "  1: {id: x, vars: {n: 1}}", "variant 1: id", "cannot differ"),
        ("- kind: answer\n    acc", "- kind: budget\n    #", "variant 1", "doing nothing passes all of them"),
    ],
)
def test_a_bad_file_is_refused_naming_file_variant_field_and_fix(
    place: Place, old: str, new: str, field: str, says: str
) -> None:
    assert old in GOOD
    with pytest.raises(BadTask) as refused:
        place(GOOD.replace(old, new)).match(["shop/lamps/1"])
    assert field in refused.value.field
    assert says in str(refused.value)


def test_everything_that_is_wrong_with_a_task_is_told_at_once(place: Place) -> None:
    """Of a string that cannot be rendered nothing more is said: it is not known what the model would get."""
    bad = GOOD.replace("{{ who }} wants", "{{ whom }} wants").replace("turns: 10", "tuns: 10")
    bad = bad.replace("tool_calls: 20", 'tool_calls: "{{ man }}"').replace("kind: answer", "kind: anwser")
    fields = {one.field.rpartition(": ")[2] for one in place(bad).each() if isinstance(one, BadTask)}
    assert fields == {"instruction", "limits.tuns", "limits.tool_calls", "contracts.0"}
    with pytest.raises(BadTask, match=r"and 3 more"):
        place(bad).match(["shop/lamps/1"])


def test_every_bad_variable_is_told_and_no_other_that_needs_it(place: Place) -> None:
    bad = GOOD.replace("lamp: L-1", 'lamp: "{{ lump }}"').replace("who: Ada", 'who: "{{ n / 0 }}"')
    fields = [one.field for one in place(bad).each() if isinstance(one, BadTask) and "variant 1" in one.field]
    assert sorted(fields) == [f"shop/lamps.yaml: variant 1: vars.{name}" for name in ("lamp", "who")]


def test_scalars_are_read_as_json_reads_them() -> None:
    text = b"[yes, 02134, 12:30, 2024-05-01, 1_000, .inf, 7, -1.5e3, true, null, ~]"
    expected = ["yes", "02134", "12:30", "2024-05-01", "1_000", ".inf", 7, -1500.0, True, None, None]
    assert parse_yaml(b"a: " + text, "x") == {"a": expected}


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"[" * 50_000, "nested too deeply"), (b"\xff\xfe\xfa", "UTF-8"), (b"- a", "not a mapping"), (b"", "mapping")],
)
def test_what_is_not_a_mapping_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(BadTask, match=says):
        parse_yaml(data, "x")


def test_a_file_over_the_size_limit_is_not_read(place: Place) -> None:
    with pytest.raises(BadTask, match="512 KiB"):
        place(GOOD + "#" * MAX_FILE_BYTES).match(["*"])


def test_globs_match_part_by_part_and_read_only_matching_files(place: Place, tmp_path: Path) -> None:
    suite = place(GOOD)
    (tmp_path / "shop" / "broken.yaml").write_text("family: [")
    suite = load_suite(tmp_path)
    assert [task.id for task in suite.match(["shop/lamps/*", "*/la*/1"])] == ["shop/lamps/1", "shop/lamps/2"]
    with pytest.raises(BadTask, match=r"broken\.yaml: line 1"):
        suite.match(["shop"])


@pytest.mark.parametrize(
    ("glob", "says"),
    [
        ("shop/lamp", "did you mean shop/lamps"),
        ("shop/lamps/3", "shop/lamps/1"),
        ("shop/lampse/1", "mean shop/lamps/1"),
        ("a/b/c/d", "three parts"),
    ],
)
def test_a_glob_without_a_task_names_close_ones(place: Place, glob: str, says: str) -> None:
    with pytest.raises(BadTask, match=says):
        place(GOOD).match([glob])


def test_one_file_or_world_is_a_suite_and_an_empty_folder_is_none(place: Place, tmp_path: Path) -> None:
    place(GOOD)
    assert load_suite(tmp_path / "shop" / "lamps.yaml").ids == ("shop/lamps/1", "shop/lamps/2")
    assert load_suite(tmp_path / "shop").ids == ("shop/lamps/1", "shop/lamps/2")
    with pytest.raises(BadInput, match=r"WORLD/FAMILY\.yaml"):
        load_suite(tmp_path / "nothing")


def test_a_problem_is_told_of_the_path_that_was_given_also_where_it_is_a_link(place: Place, tmp_path: Path) -> None:
    place("family: [")
    link = tmp_path / "elsewhere" / "link.yaml"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "shop" / "lamps.yaml")
    (problem,) = load_suite(link).each()
    assert str(problem).startswith(f"{link}: ")
    (problem,) = load_suite(tmp_path / "shop").each()
    assert str(problem).startswith("shop/lamps.yaml: ")


def test_a_bad_file_does_not_hide_the_others(place: Place, tmp_path: Path) -> None:
    place(GOOD)
    (tmp_path / "shop" / "a.yaml").write_text("family: b\nworld: shop")
    found = list(load_suite(tmp_path).each())
    assert [isinstance(one, BadTask) for one in found] == [True, False, False]


def test_the_listing_is_json(place: Place) -> None:
    first = place(GOOD).listing()[0]
    assert first["id"] == "shop/lamps/1"
    assert first["needs_sandbox"] is False


def _paths(value: JsonValue, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict):
        return [path, *(p for key, item in value.items() for p in _paths(item, (*path, key)))]
    if isinstance(value, list):
        return [path, *(p for index, item in enumerate(value) for p in _paths(item, (*path, index)))]
    return [path]


def _replaced(value: JsonValue, path: tuple[str | int, ...], new: JsonValue) -> JsonValue:
    if not path:
        return new
    if isinstance(value, dict):
        return {key: _replaced(item, path[1:], new) if key == path[0] else item for key, item in value.items()}
    assert isinstance(value, list)
    return [_replaced(item, path[1:], new) if index == path[0] else item for index, item in enumerate(value)]


PARSED: JsonObject = parse_yaml(GOOD.encode(), "good")
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(
        ["{{", "{{ n }}", "{% if %}", "${steps}", "{{ who.items }}", "{{ n[0] }}", "{{ lamp|nope }}", "\ud800"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(path=st.sampled_from(_paths(PARSED)), new=VALUES)
def test_a_mutated_file_is_a_suite_or_a_bad_task(
    tmp_path_factory: pytest.TempPathFactory, path: tuple[str | int, ...], new: JsonValue
) -> None:
    folder = tmp_path_factory.getbasetemp() / "mutated" / "shop"
    folder.mkdir(parents=True, exist_ok=True)
    mutated = _replaced(PARSED, path, new)
    (folder / "lamps.yaml").write_bytes(yaml.safe_dump(mutated, allow_unicode=False).encode("utf-8", "replace"))
    for found in load_suite(folder.parent).each():
        if isinstance(found, BadTask):
            assert found.field.startswith("shop/lamps.yaml")


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_cut_or_spliced_file_is_a_suite_or_a_bad_task(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "cut" / "shop"
    folder.mkdir(parents=True, exist_ok=True)
    at = data.draw(st.integers(0, len(GOOD)))
    until = data.draw(st.integers(at, len(GOOD)))
    spliced = GOOD[:at].encode() + data.draw(st.binary(max_size=6)) + GOOD[until:].encode()
    (folder / "lamps.yaml").write_bytes(spliced)
    for found in load_suite(folder.parent).each():
        if isinstance(found, BadTask):
            assert found.field.startswith("shop/lamps.yaml")
