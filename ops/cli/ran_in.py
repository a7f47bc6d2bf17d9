"""What an episode ran in, for a person: its driver, and of Docker's the image and whether it was used before."""

from collections.abc import Iterator

from ops.cli.images import short
from schemas.episode import EpisodeResult
from schemas.sandbox import SandboxPlan
from schemas.sandbox_facts import SandboxFacts
from tiltyard.trace import Trace


def ran_in(result: EpisodeResult, trace: Trace | None) -> str:
    """Of an episode that had a sandbox what its trace says; no more than its driver where there is none."""
    if trace is not None and trace.task.sandbox is not None and trace.evidence.sandbox is not None:
        return ", ".join(_words(trace.task.sandbox, trace.evidence.sandbox.facts))
    return result.sandbox or ""


def _words(plan: SandboxPlan, facts: SandboxFacts) -> Iterator[str]:
    yield facts.driver
    if facts.image:
        yield f"image {plan.image} {short(facts.image)}"
        yield facts.isolation
    if facts.served_before:
        yield f"served {facts.served_before} before"
