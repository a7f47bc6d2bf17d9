"""Verifying a world: does it answer and change as a file of cases says?

Each case runs on a fresh namespace, in the engine that also serves episodes, over a store in memory of its own.
Compared are the success or refusal of each step, the results of reads, and the complete end state. Nothing is
started.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from schemas.verify import Case, CaseResult, CaseStep, Mismatch, VerifyReport
from schemas.world import Facts, Shown, TemplateRef
from tiltyard.errors import BadInput
from tiltyard.worlds.builtin import with_engine_tools
from tiltyard.worlds.cases import read_cases
from tiltyard.worlds.differences import differences, result_differences
from tiltyard.worlds.kit import Template, WorldKind
from tiltyard.worlds.registry import worlds
from tiltyard.worlds.rows import decoded
from tiltyard.worlds.sequence import BREAKDOWNS, Sequences

DATA_FILE = "db.json"


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
    sequences = Sequences(world, made)
    results = tuple(_verified(sequences, made, case) for case in cases)
    return VerifyReport(world=world.name, template_digest=made.digest, results=results)


def _verified(sequences: Sequences, made: Template, case: Case) -> CaseResult:
    played = sequences.play((step.tool, step.arguments) for step in case.steps)
    steps = zip(case.steps, played.shown, strict=True)
    found = [
        mismatch
        for number, (step, shown) in enumerate(steps, 1)
        for mismatch in _step_mismatches(case, number, step, shown)
    ]
    found += _end_mismatches(case, made, played.facts)
    return CaseResult(id=case.id, kind=case.kind, mismatches=tuple(found))


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
