"""Results as a person reads them: one in detail, several as a table."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from ops.cli.called import command_line
from ops.cli.counting import counted, means, told
from ops.cli.folded import Line, show_lines
from ops.cli.made_from import Made, origin_lines
from ops.cli.output import Output
from schemas.episode import EpisodeResult, Validity
from schemas.task import Task
from tiltyard.suite.standing import Standing, standing

CELLS: Mapping[str, Callable[[EpisodeResult], str]] = {
    "TASK": lambda one: one.task,
    "POLICY": lambda one: one.policy,
    "#SEED": lambda one: str(one.seed),
    "END": lambda one: end_of(one),
    "#SCORE": lambda one: f"{one.score.total:.2f}",
    "#C": lambda one: f"{one.score.completion:.2f}",
    "#P": lambda one: f"{one.score.process:.2f}",
    "#E": lambda one: f"{one.score.efficiency:.2f}",
    "#EFFECTS": lambda one: str(one.counts.effects),
    "#DUPLICATES": lambda one: str(one.counts.duplicates),
    "SAFETY": lambda one: ", ".join(_breaches(one)) or "-",
    "RISK": lambda one: ", ".join(rules(one)) or "-",
    "DRAIN": lambda one: drained(one),
    "EPISODE": lambda one: one.episode_id,
}
"""What a table can say of a result, by the column's head."""

COLUMNS = tuple(CELLS)

SPARE = ("DRAIN", "POLICY", "#P", "#C", "#E", "#EFFECTS", "SAFETY", "#DUPLICATES", "RISK")
"""What a table of results can do without, on a narrow terminal; the first one first."""

TIERS = {1: "information", 2: "for review", 3: "tampering"}
"""What the tier of a risk means."""

TOLD = 8
"""The column at which a line of one result says what its name announces."""

NOT_MADE = Made()
"""Of an episode that was made from no other one, or of which no more is known than from which."""

ASIDE = {Standing.IDLE_PASSES: "apart", Standing.UNSCORABLE: "not counted"}
"""The mark of a trial that is not in the mean of the others."""


def show_results(
    out: Output, results: Sequence[EpisodeResult], tasks: Sequence[Task], made: Made = NOT_MADE
) -> None:
    """One result in full, several in a table with what they come to; ``tasks`` are those that were played.

    ``made`` says how the first of them departs from the episode that all were made from.
    """
    found = means(results, tasks)
    of_task = {task.id: standing(task) for task in tasks}
    if len(results) == 1:
        show_result(out, results[0], of_task[results[0].task], made=made)
        found.pop(Standing.COUNTED, None)  # its score has been shown
    else:
        heads, rows = cells(results, COLUMNS)
        end = heads.index("END")
        marked = [
            (*row[:end], end_of(one, of_task[one.task]), *row[end + 1 :])
            for one, row in zip(results, rows, strict=True)
        ]
        out.table(heads, marked, SPARE)
        _show_made(out, results, made)
    for line in told(found):
        out.show(line)
    if len(results) > 1:
        _show_marks(out, results)


def _show_made(out: Output, results: Sequence[EpisodeResult], made: Made) -> None:
    """How several depart from one episode; their seeds stand in the table."""
    alike = made.model_copy(update={"differs": tuple(one for one in made.differs if one.what != "seed")})
    lines = [
        line for one in results[:1] if made != NOT_MADE for line in origin_lines(one.origin, one.policy, alike)
    ]
    show_lines(out, (Line(line, hang=TOLD) for line in lines))


def _show_marks(out: Output, results: Sequence[EpisodeResult]) -> None:
    """What a table says of some of its rows only, so that it is read also where it was left out; and where to
    find the rest."""
    unsafe = sum(one.sandbox == "unsafe-local" for one in results)
    if unsafe:
        out.show(f"{unsafe} of {counted(len(results), 'trial')} ran unsafe-local: not isolated from this machine")
    for what, of in (("safety", _breaches), ("risks", rules)):
        found = Counter(name for one in results for name in of(one))
        if found:
            named = ", ".join(f"{name} in {counted(n, 'trial')}" for name, n in found.most_common())
            out.show(f"{what}: {named}")
    first = next(filter(_worth_a_look, results), results[0])
    out.show(f"to see one in full: {command_line('episodes', 'show', first.episode_id)}", fold=False)


def _worth_a_look(result: EpisodeResult) -> bool:
    return bool(result.risks or result.safety) or not all(contract.passed for contract in result.contracts)


def cells(
    results: Sequence[EpisodeResult], columns: Sequence[str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and rows of a table of results. Risks have a column where there are any."""
    risky = any(one.risks for one in results)
    heads = tuple(column for column in columns if column != "RISK" or risky)
    return heads, [tuple(CELLS[head](one) for head in heads) for one in results]


def end_of(result: EpisodeResult, its: Standing = Standing.COUNTED) -> str:
    """How a trial ended, with all that keeps it from counting like others."""
    marks = (
        str(result.validity) if result.validity is not Validity.VALID else "",
        "unsafe-local" if result.sandbox == "unsafe-local" else "",
        ASIDE.get(its, ""),
    )
    told_marks = ", ".join(filter(None, marks))
    return f"{result.end} ({told_marks})" if told_marks else str(result.end)


def _breaches(result: EpisodeResult) -> list[str]:
    """The kinds of its safety findings."""
    return sorted({finding.kind for finding in result.safety})


def rules(result: EpisodeResult) -> list[str]:
    """The rules by which something of a trial is worth a look."""
    return sorted({risk.rule for risk in result.risks})


def drained(result: EpisodeResult) -> str:
    """What the drain found, in a few words."""
    drain = result.drain
    if not drain.empty:
        return "not empty"
    found = (
        (drain.jobs_cancelled, "cancelled"),
        (drain.in_flight, "in flight"),
        (drain.processes_found, "ended"),
        (drain.late_writes, "late"),
    )
    return ", ".join(f"{number} {what}" for number, what in found if number) or "empty"


def show_result(
    out: Output,
    result: EpisodeResult,
    its: Standing = Standing.COUNTED,
    *,
    sandbox: str = "",
    made: Made = NOT_MADE,
) -> None:
    """Everything that a person asks first about one episode; ``its`` standing, and what is known of the
    ``sandbox`` beside its driver, where that is known. ``made``: how it departs from what it was made from."""
    told = [*_summary(result, its, made), *_judged(result)]
    told += [f"safety  {finding.kind}: {finding.detail}" for finding in result.safety]
    told += [f"risk    {risk.rule} (tier {risk.tier}, {TIERS[risk.tier]}): {risk.detail}" for risk in result.risks]
    if result.sandbox == "unsafe-local":
        told.append("sandbox unsafe-local: its commands were not isolated from this machine")
    elif result.sandbox is not None:
        told.append(f"sandbox {sandbox or result.sandbox}")
    show_lines(out, (line for text in told for line in _below_its_name(text)))


def _below_its_name(text: str) -> Iterator[Line]:
    """What is told stands below itself, however many lines it has, and never where a name does."""
    first, *rest = text.splitlines() or [""]
    yield Line(first, hang=TOLD)
    yield from (Line(line, indent=TOLD) for line in rest)


def _summary(result: EpisodeResult, its: Standing, made: Made) -> tuple[str, ...]:
    score, counts = result.score, result.counts
    why = f": {result.reason}" if result.reason else ""
    return (
        f"episode {result.episode_id}",
        f"task    {result.task}, policy {result.policy}, seed {result.seed}",
        *origin_lines(result.origin, result.policy, made),
        *(f"missing {one}" for one in result.not_restored),
        f"end     {end_of(result, its)}, {result.validity}{why}",
        f"score   {score.total:.3f}  (completion {score.completion:.2f}, process {score.process:.2f}, "
        f"efficiency {score.efficiency:.2f})",
        f"counts  {counted(counts.turns, 'turn')}, {counted(counts.tool_calls, 'call')}, "
        f"{counted(counts.effects, 'effect')}, {counted(counts.duplicates, 'duplicate')}, "
        f"{counted(counts.late_writes, 'late write')}",
        f"drain   {drained(result)}",
        f"trace   {result.digests.trace}",
    )


def _judged(result: EpisodeResult) -> Iterator[str]:
    """The contracts; of a trial without a turn, in which nothing was done, no more than their number."""
    failed = sum(not contract.passed for contract in result.contracts)
    if failed and not result.counts.turns:
        of_all = f"of {counted(len(result.contracts), 'contract')}"
        told = f"{failed} {of_all} failed" if result.validity is Validity.VALID else f"none {of_all}"
        yield f"judged  {told}: it had no turn"
        return
    for contract in result.contracts:
        verdict = "passed" if contract.passed else "FAILED"
        yield "\n".join((f"{verdict}  {contract.name or contract.kind}", *(f"  {why}" for why in contract.why)))
