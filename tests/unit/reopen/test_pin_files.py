"""Pins as files: what was edited by hand is named, nothing is written over, and they are no tasks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.pin import SEALED, Pin
from tests.unit.reopen.pins import LOST, pinned
from tiltyard.errors import BadInput, BadTask
from tiltyard.reopen.pin_files import pins_at, pins_beside, read_pin, text_of, write_pin
from tiltyard.suite import load_suite


@pytest.fixture(scope="module")
def twice() -> Pin:
    """The duplicate: its state, receipts, answer and process fail."""
    return pinned(LOST, "new_id_retry")


def edit(path: tuple[Any, ...], value: Any) -> Callable[[dict[str, Any]], None]:
    def change(fields: dict[str, Any]) -> None:
        *way, last = path
        for part in way:
            fields = fields[part]
        fields[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        (edit(("seed",), 7), "seed", "it was edited"),
        (edit(("sandbox",), "docker"), "sandbox", "it was edited"),
        (edit(("expect", "score"), 0.9), "expect", "it was edited"),
        (edit(("turns", 0, "decision", "calls", 0, "arguments"), {"ticket_id": "T-1"}), "turns", "it was edited"),
        (edit(("task", "limits", "turns"), 3), "task", "it was edited"),
        (edit(("ending", "reason"), "why"), "ending", "it was edited"),
        (edit(("sealed",), {}), "task", "it was edited"),
        (edit(("sandbox",), "unsafe-local"), "sandbox", "must be|Input should be"),
        (edit(("expect", "score"), 2), "expect.score", "less than or equal"),
        (edit(("expect", "end"), "won"), "expect.end", "Input should be"),
        (edit(("turns", 0, "decision", "calls"), []), "turns.0.decision", "exactly one of"),
        (edit(("task", "limits", "turns"), "many"), "task.limits.turns", "valid integer"),
        (edit(("nmae",), "x"), "nmae", "not permitted"),
        (edit(("pin",), 2), "pin", "Input should be 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_edit_by_hand_is_told_by_its_field(
    twice: Pin, tmp_path: Path, change: Callable[[dict[str, Any]], None], field: str, said: str
) -> None:
    fields = yaml.safe_load(text_of(twice, ".yaml"))
    change(fields)
    file = tmp_path / "it.yaml"
    file.write_text(yaml.safe_dump(fields))
    with pytest.raises(BadTask, match=said) as caught:
        read_pin(file, "pinned/it.yaml")
    assert caught.value.field == f"pinned/it.yaml: {field}"
    assert caught.value.fix


def test_every_part_that_decides_something_is_sealed(twice: Pin) -> None:
    assert set(twice.sealed) == set(SEALED) == set(Pin.model_fields) - {"pin", "name", "source", "sealed"}


@pytest.mark.parametrize("data", [b"", b"[", b"\xff\xfe", b"pin: 1", b"x" * 600_000])
def test_what_is_no_pin_is_refused_by_file(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "it.yaml"
    file.write_bytes(data)
    with pytest.raises(BadTask) as caught:
        read_pin(file)
    assert caught.value.field.startswith(str(file))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("null", "is not (a mapping|an object) [(]pin the episode again[)]"),
        ("[]", "is not (a mapping|an object) [(]pin the episode again[)]"),
        ('{"pin": 2}', "pin: Input should be 1 [(]and 9 more[)] [(]write 1[)]"),
    ],
)
def test_what_is_advised_is_of_a_pin(data: str, said: str, tmp_path: Path) -> None:
    for suffix in (".yaml", ".json"):
        file = tmp_path / f"it{suffix}"
        file.write_text(data)
        with pytest.raises(BadTask, match=f"^it: {said}$"):
            read_pin(file, "it")


def test_a_pin_that_is_too_large_for_yaml_is_not_to_be_split(tmp_path: Path) -> None:
    file = tmp_path / "it.yaml"
    file.write_text("x" * 600_000)
    with pytest.raises(BadTask, match="is over 512 KiB") as caught:
        read_pin(file)
    assert caught.value.fix == "pin the episode again as JSON, with --to FILE.json"


def test_what_a_policy_said_reorders_nothing_that_people_read_in_a_pin(twice: Pin, tmp_path: Path) -> None:
    spoofed = twice.model_copy(update={"task": twice.task.model_copy(update={"instruction": "pay \u202e001 now"})})
    for suffix in (".yaml", ".json"):
        file = tmp_path / f"it{suffix}"
        write_pin(file, spoofed)
        assert "\u202e" not in file.read_text(encoding="utf-8")
        assert read_pin(file, edited=True) == spoofed


def test_a_pin_is_never_written_over_and_a_large_one_is_json(twice: Pin, tmp_path: Path) -> None:
    file = tmp_path / "pinned" / "it.yaml"
    write_pin(file, twice)
    before = file.read_bytes()
    with pytest.raises(BadInput, match="is there already"):
        write_pin(file, twice)
    assert file.read_bytes() == before
    task = twice.task.model_copy(update={"instruction": "x" * 600_000})
    large = twice.model_copy(update={"task": task})
    with pytest.raises(BadInput, match="YAML is read up to 512 KiB"):
        write_pin(tmp_path / "large.yaml", large)
    write_pin(tmp_path / "large.json", large)
    assert read_pin(tmp_path / "large.json", edited=True) == large


def test_a_pin_that_is_replaced_is_whole_at_every_moment(twice: Pin, tmp_path: Path) -> None:
    """The old file is never emptied: whoever holds it, as a crash in the middle would leave it, has all of it."""
    file, held = tmp_path / "pinned" / "it.yaml", tmp_path / "held.yaml"
    write_pin(file, twice)
    file.chmod(0o640)
    held.hardlink_to(file)
    other = twice.model_copy(update={"name": "other"})
    write_pin(file, other, replace=True)
    assert read_pin(held) == twice
    assert read_pin(file) == other
    assert file.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in file.parent.iterdir()] == ["it.yaml"], "nothing is left beside it"


def test_a_pin_behind_a_link_is_replaced_there(twice: Pin, tmp_path: Path) -> None:
    kept = tmp_path / "kept.yaml"
    write_pin(kept, twice)
    link = tmp_path / "pinned" / "it.yaml"
    link.parent.mkdir()
    link.symlink_to(kept)
    other = twice.model_copy(update={"name": "other"})
    write_pin(link, other, replace=True)
    assert link.is_symlink()
    assert read_pin(kept) == other


def test_a_pin_that_cannot_be_written_leaves_nothing(twice: Pin, tmp_path: Path) -> None:
    """Its name is as long as a name may be, so that there is none for a file aside; or its folder is none."""
    (tmp_path / "none").write_text("")
    for file in (tmp_path / f"{'x' * 300}.yaml", tmp_path / "none" / "it.yaml"):
        with pytest.raises(BadInput, match="cannot be written") as caught:
            write_pin(file, twice)
        assert caught.value.field == str(file)
    assert [one.name for one in tmp_path.iterdir()] == ["none"]


def test_pins_lie_beside_the_worlds_of_a_suite_and_are_no_tasks(twice: Pin, tmp_path: Path) -> None:
    mine = tmp_path / "replacement" / "mine.yaml"
    mine.parent.mkdir()
    mine.write_text("family: mine\nworld: replacement\nvariants: {1: {}}\n")
    pin = tmp_path / "pinned" / "it.yaml"
    write_pin(pin, twice)
    for place in (tmp_path, mine.parent):
        assert tuple(load_suite(place).families) == ("replacement/mine",)
        assert pins_beside(load_suite(place)) == [pin.resolve()]
    with pytest.raises(BadInput, match="is a pin, and no task file"):
        load_suite(pin)
    assert [pins_at(place) for place in (tmp_path, pin.parent, pin, mine)] == [[pin], [pin], [pin], []]
