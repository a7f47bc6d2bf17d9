"""Verifying a world: does it answer and change as a file of cases says?

Each case runs on a fresh namespace, in the engine that also serves episodes, over a store in memory of its own.
Compared are the success or refusal of each step, the results of reads, and the complete end state. Nothing is
started.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from schemas.verify import Case, CaseResult, CaseStep, Mismatch, VerifyReport
from schemas.world import TOO_MANY_JOBS, DeliveryRequest, Facts, Lease, LeaseRequest, Owner, Shown, TemplateRef
from tiltyard.errors import BadInput
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.worlds.builtin import with_engine_tools
from tiltyard.worlds.cases import read_cases
from tiltyard.worlds.differences import differences, result_differences
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.kit import Template, WorldKind
from tiltyard.worlds.registry import worlds
from tiltyard.worlds.rows import decoded

DATA_FILE = "db.json"
BREAKDOWNS = ("tool_failed", TOO_MANY_JOBS)
"""Codes that say that the world broke down. No case expects that: it is not a refusal."""


def run_verify(world: str, data: Path, cases: Path) -> VerifyReport:
    """Verify a shipped world on the ``db.json`` of the folder ``data`` with a file of cases.

    Raises ``BadInput`` for an unknown world, bad data, and a bad case (naming its line and field).
    """
    known = worlds()
    if world not in known:
        raise BadInput(f"there is no world {world!r}", field="world", fix=f"known worlds: {', '.join(known)}")
    kind = known[world]
    if "file" not in kind.templates:
        raise BadInput(f"{world} has no template that loads data", field="world", fix="verify a world that has")
    template = TemplateRef(name="file", params={"path": str((data / DATA_FILE).resolve())})
    return verify(kind, template, read_cases(cases, with_engine_tools(kind).tools))


def verify(world: WorldKind, template: TemplateRef, cases: Iterable[Case]) -> VerifyReport:
    """Run every case. Raises ``BadInput`` when the template cannot be made."""
    made = world.template(template.name, template.params)
    kinds = {world.name: replace(world, template=lambda name, params: made)}
    results = tuple(_verified(Engine(kinds, MemoryWorlds()), world.name, made, case) for case in cases)
    return VerifyReport(world=world.name, template_digest=made.digest, results=results)


def _verified(engine: Engine, world: str, made: Template, case: Case) -> CaseResult:
    owner = Owner(cluster="", temporal_namespace="", workflow_id=case.id, first_run_id="")
    lease = engine.lease(LeaseRequest(owner=owner, episode_id=case.id, world=world))
    found: list[Mismatch] = []
    for number, step in enumerate(case.steps, 1):
        delivery_id = f"{case.id}/{lease.generation}/{number}/1"
        found += _step_mismatches(case, number, step, _called(engine, lease, step, delivery_id))
    engine.seal(lease.namespace, lease.generation)
    found += _end_mismatches(case, made, engine.facts(lease.namespace, lease.generation))
    return CaseResult(id=case.id, kind=case.kind, mismatches=tuple(found))


def _called(engine: Engine, lease: Lease, step: CaseStep, delivery_id: str) -> Shown:
    request = DeliveryRequest(
        namespace=lease.namespace,
        generation=lease.generation,
        delivery_id=delivery_id,
        tool=step.tool,
        arguments=step.arguments,
    )
    return engine.call(request).shown


def _step_mismatches(case: Case, number: int, step: CaseStep, answer: Shown) -> Iterator[Mismatch]:
    succeeded = answer.status == "ok"
    if succeeded != step.ok or answer.code in BREAKDOWNS:
        expected = "success" if step.ok else "a refusal"
        got = "success" if succeeded else f"{answer.code}: {answer.message}"
        yield Mismatch(case=case.id, step=number, tool=step.tool, expected=expected, got=got)
    elif succeeded and step.result is not None:
        for where, expected, got in result_differences(step.result, answer.content):
            yield Mismatch(case=case.id, step=number, tool=step.tool, where=where, expected=expected, got=got)


def _end_mismatches(case: Case, made: Template, facts: Facts) -> Iterator[Mismatch]:
    changed = {(row.collection, row.key): row.after for row in facts.changes}
    listed = {(name, key): body for name, bodies in case.changed.items() for key, body in bodies.items()}
    for collection, key in sorted(changed.keys() | listed.keys()):
        where = f"{collection}.{key}"
        before = decoded(made.rows.get(collection, {}).get(key))
        after = changed.get((collection, key), before)
        if (collection, key) in listed:
            for place, expected, got in differences(listed[collection, key], after, where):
                yield Mismatch(case=case.id, where=place, expected=expected, got=got)
        else:
            for place, expected, got in differences(before, after, where):
                yield Mismatch(case=case.id, where=place, expected=f"{expected} as before", got=got)
