"""Results as a person reads them: one in detail, several as a table."""

from collections.abc import Sequence

from ops.cli.counting import means, told
from ops.cli.output import Output
from schemas.episode import EpisodeResult
from schemas.task import Task
from tiltyard.suite.standing import Standing

COLUMNS = (
    "TASK",
    "POLICY",
    "#SEED",
    "END",
    "#SCORE",
    "#C",
    "#P",
    "#E",
    "#EFFECTS",
    "#DUPLICATES",
    "SAFETY",
    "DRAIN",
    "EPISODE",
)

SPARE = ("DRAIN", "POLICY", "#P", "#C", "#E", "#EFFECTS", "SAFETY", "#DUPLICATES")
"""What a table of results can do without, on a narrow terminal; the first one first."""


def show_results(out: Output, results: Sequence[EpisodeResult], tasks: Sequence[Task]) -> None:
    """One result in full, several in a table with their means; ``tasks`` are those that were played."""
    found = means(results, tasks)
    if len(results) == 1:
        show_result(out, results[0])
        found.pop(Standing.COUNTED, None)  # its score has been shown
    else:
        out.table(COLUMNS, [result_row(one) for one in results], SPARE)
    for line in told(found):
        out.show(line)


def result_row(result: EpisodeResult) -> tuple[str, ...]:
    """One result as a row of ``COLUMNS``."""
    return (result.task, result.policy, str(result.seed), *figures(result), result.episode_id)


def figures(result: EpisodeResult) -> tuple[str, ...]:
    """End, score, C, P, E, effects, duplicates, safety and drain of a result."""
    score = result.score
    numbers = (score.total, score.completion, score.process, score.efficiency)
    return (
        str(result.end) if result.validity.value == "valid" else f"{result.end} ({result.validity})",
        *(f"{number:.2f}" for number in numbers),
        str(result.counts.effects),
        str(result.counts.duplicates),
        ", ".join(sorted({finding.kind for finding in result.safety})) or "-",
        drained(result),
    )


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


def show_result(out: Output, result: EpisodeResult) -> None:
    """Everything that a person asks first about one episode."""
    score, counts = result.score, result.counts
    why = f": {result.reason}" if result.reason else ""
    lines = [
        f"episode {result.episode_id}",
        f"task    {result.task}, policy {result.policy}, seed {result.seed}",
        f"end     {result.end}, {result.validity}{why}",
        f"score   {score.total:.3f}  (completion {score.completion:.2f}, process {score.process:.2f}, "
        f"efficiency {score.efficiency:.2f})",
        f"counts  {counts.turns} turns, {counts.tool_calls} calls, {counts.effects} effects, "
        f"{counts.duplicates} duplicates, {counts.late_writes} late writes",
        f"drain   {drained(result)}",
        f"trace   {result.digests.trace}",
    ]
    for contract in result.contracts:
        lines.append(f"{'passed' if contract.passed else 'FAILED'}  {contract.name or contract.kind}")
        lines += [f"          {reason}" for reason in contract.why]
    lines += [f"safety  {finding.kind}: {finding.detail}" for finding in result.safety]
    lines += [f"risk    {risk.rule} (tier {risk.tier}): {risk.detail}" for risk in result.risks]
    if result.sandbox == "unsafe-local":
        lines.append("sandbox unsafe-local: its commands were not isolated from this machine")
    out.show("\n".join(lines))
