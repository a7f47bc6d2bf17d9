"""What an episode ran in, for a person: its driver, and of Docker's the image and whether it was used before."""

from collections.abc import Iterator
from contextlib import suppress

from ops.cli.images import short
from schemas.episode import EpisodeResult
from schemas.sandbox import SandboxPlan
from schemas.sandbox_facts import SandboxFacts
from tiltyard.errors import TiltyardError
from tiltyard.trace import unpack
from workers.bootstrap.objects import open_objects
from workers.settings import Settings


async def ran_in(settings: Settings, result: EpisodeResult) -> str:
    """Of an episode that had a sandbox what its trace says; no more than its driver where that cannot be read."""
    if result.sandbox is None or not result.trace:
        return result.sandbox or ""
    with suppress(TiltyardError), open_objects(settings) as objects:
        trace = unpack(await objects.get(result.trace))
        if trace.task.sandbox is not None and trace.evidence.sandbox is not None:
            return ", ".join(_words(trace.task.sandbox, trace.evidence.sandbox.facts))
    return result.sandbox


def _words(plan: SandboxPlan, facts: SandboxFacts) -> Iterator[str]:
    yield facts.driver
    if facts.image:
        yield f"image {plan.image} {short(facts.image)}"
        yield facts.isolation
    if facts.served_before:
        yield f"served {facts.served_before} before"
