"""Names of images: what no engine takes is found by the check of a task, by the driver and by the command alike."""

import pytest

from infra.sandboxes.docker.engine import connected
from infra.sandboxes.docker.pulling import pull
from infra.sandboxes.docker.recipes import RECIPES
from schemas.sandbox import IMAGE_REFERENCE, SandboxPlan
from tiltyard.errors import SandboxUnavailable
from tiltyard.suite import check_task, shipped
from tiltyard.worlds.registry import worlds

TASK = shipped().task("code-repair/repair/1")
DIGEST = "sha256:" + "0a" * 32

GOOD = (
    *RECIPES,
    *("debian", "debian:12-slim", "library/debian", "a/b/c:1.0_2-x", "localhost/x", "localhost:5000/x"),
    *("registry.example.com/agents/python:3.12", "127.0.0.1:1/a/b:1", "[::1]:5000/a", "a__b/c-d--e.f"),
    *(f"debian@{DIGEST}", f"registry.example.com:443/a/b:1@{DIGEST}", "Registry/a"),
)
BAD = (
    *(
        " debian",
        "debian ",
        "de bian",
        "debian:",
        ":12",
        "debian:12:13",
        "debian:-1",
        "a//b",
        "/a",
        "a/",
        "A",
        "a/B",
    ),
    *(
        "http://registry.example.com/a",
        "debian@12",
        "debian@sha256:12",
        "a:b/c",
        "-a",
        "a-",
        "a..b",
        "a___b",
        "ä",
        "a\n",
    ),
    *("debian;rm", "$IMAGE", "{{ image }}", "debian:" + "1" * 129),
)


@pytest.mark.parametrize("reference", GOOD)
def test_a_reference_is_one(reference: str) -> None:
    assert IMAGE_REFERENCE.fullmatch(reference)


@pytest.mark.parametrize("reference", BAD)
def test_what_is_none_is_found_by_check_and_driver(reference: str) -> None:
    plan = SandboxPlan.model_validate({**dict(TASK.sandbox or SandboxPlan()), "image": reference})
    (problem,) = check_task(TASK.model_copy(update={"sandbox": plan}), worlds()["code-repair"])
    assert problem.field == "code-repair/repair/1: sandbox.image"
    assert problem.fix
    engine = connected()
    try:
        with pytest.raises(SandboxUnavailable, match="no image's reference"):  # no engine is asked
            pull(engine, reference)
    finally:
        engine.close()


def test_what_is_shipped_has_none_of_them() -> None:
    assert check_task(TASK, worlds()["code-repair"]) == ()
