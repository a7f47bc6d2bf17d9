"""Templates that are kept as files: read back whole, by their digest alone, and checked."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.base import JsonObject
from schemas.world import LeaseRequest, Owner
from tiltyard.errors import BadInput
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.tally_world import TALLY
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.imported import WithImported, file_of, kept, ref_of
from tiltyard.worlds.kit import Template
from tiltyard.worlds.registry import worlds

MADE = worlds()["retail"].template("default", {"users": 3, "orders": 4, "products": 2})
OWNER = Owner(cluster="c", temporal_namespace="n", workflow_id="w", first_run_id="r")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / file_of(MADE.digest)).write_bytes(kept("retail", MADE))
    return tmp_path


def read(folder: Path, params: JsonObject, world: str = "retail") -> Template:
    return WithImported(worlds(), folder)[world].template("imported", params)


def test_a_kept_template_is_read_back_whole(folder: Path) -> None:
    found = read(folder, ref_of(MADE).params)
    assert (found.digest, found.rows, found.jobs) == (MADE.digest, MADE.rows, MADE.jobs)


def test_jobs_that_are_pending_from_the_start_are_kept(tmp_path: Path) -> None:
    made = TALLY.template("jobs", {})
    assert made.jobs
    (tmp_path / file_of(made.digest)).write_bytes(kept("tally", made))
    found = WithImported({"tally": TALLY}, tmp_path)["tally"].template("imported", ref_of(made).params)
    assert (found.digest, found.jobs) == (made.digest, made.jobs)


def test_the_engine_leases_it_under_its_digest(folder: Path) -> None:
    engine = Engine(WithImported(worlds(), folder), MemoryWorlds())
    lease = engine.lease(LeaseRequest(owner=OWNER, episode_id="e", world="retail", template=ref_of(MADE)))
    assert lease.template_digest == MADE.digest


def test_other_templates_and_worlds_stay_as_they_are(folder: Path) -> None:
    found = WithImported(worlds(), folder)
    assert list(found) == list(worlds())
    assert found["retail"].template("default", {}).digest == worlds()["retail"].template("default", {}).digest
    assert found["retail"].templates == (*worlds()["retail"].templates, "imported")


def changed(folder: Path, edit: Callable[[JsonObject], object]) -> None:
    path = folder / file_of(MADE.digest)
    held = json.loads(path.read_bytes())
    edit(held)
    path.write_text(json.dumps(held))


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda held: held["rows"]["users"].popitem(), "has changed"),
        (lambda held: held["rows"].update(more={"a": 1}), "has changed"),
        (lambda held: held.update(world="replacement"), "is a template of replacement"),
        (lambda held: held.pop("rows"), "does not hold a template"),
    ],
)
def test_a_file_that_is_not_what_was_imported_is_refused(
    folder: Path, edit: Callable[[JsonObject], object], says: str
) -> None:
    changed(folder, edit)
    with pytest.raises(BadInput, match=says) as error:
        read(folder, ref_of(MADE).params)
    assert error.value.field == "template.params.digest"
    assert "tiltyard import" in error.value.fix


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "template.params"),
        ({"digest": 7}, "template.params"),
        ({"digest": MADE.digest, "path": "/"}, "template.params"),
        ({"digest": "../../secrets"}, "template.params.digest"),
        ({"digest": "sha256:" + "0" * 64}, "template.params.digest"),
    ],
)
def test_bad_parameters_are_named(folder: Path, params: JsonObject, field: str) -> None:
    with pytest.raises(BadInput) as error:
        read(folder, params)
    assert error.value.field == field
    assert error.value.fix
