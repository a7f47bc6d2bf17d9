"""``tiltyard regrade``: stored facts, graded again by the graders of today. It starts nothing."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ops.cli.failures import BELOW, DONE
from ops.cli.output import Output, json_option
from ops.cli.suites import suite, tasks_option

if TYPE_CHECKING:
    from schemas.episode import EpisodeResult
    from schemas.regrade import Fact, Regrade
    from tiltyard.errors import TiltyardError
    from tiltyard.suite import Suite
    from workers.settings import Settings

CELL = 48
"""Characters of a fact that the table shows; what moved is told in full below it."""

EVERY = 1_000_000_000
"""More episodes than there are."""


@click.command(short_help="Grade stored facts again, old and new side by side.")
@click.argument("names", metavar="[EPISODE]…", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every episode that has ended.")
@click.option("--current-task", is_flag=True, help="By the contracts, rules and weights that the task has now.")
@tasks_option
@click.option("--fail-on-change", is_flag=True, help="Exit 1 when a fact of any of them moved.")
@click.pass_obj
@json_option
def regrade(
    home: Path | None,
    names: tuple[str, ...],
    every: bool,
    current_task: bool,
    place: Path | None,
    fail_on_change: bool,
    out: Output,
) -> int:
    """Grade the stored facts of each EPISODE again with the current graders: an id, or a glob of ids or of tasks
    such as 'replacement/reply-*'.

    Nothing is run again, no stack is needed, and no recorded outcome is changed: what was found then and what is
    found now are shown side by side, with the facts that moved. The task is the stored one; with --current-task, or
    --tasks, it is graded by what the task file says now.
    """
    import asyncio

    from tiltyard.errors import BadInput
    from workers.settings import Settings

    if every == bool(names):
        what = "give either episodes or --all" if every else "name episodes, or give --all"
        raise BadInput(what, field="EPISODE", fix="`tiltyard episodes list` names those there are")
    now = suite(home, place) if current_task or place else None
    found, failed = asyncio.run(_regraded(Settings.from_environment(home), names, now, out))
    for one in found:
        out.value(told(one))
    _show(found, out)
    for error in failed[1:]:
        out.note(f"error: {error}")
    if failed:
        raise failed[0]
    return BELOW if fail_on_change and any(one.moved for one in found) else DONE


async def _regraded(
    settings: "Settings", names: Sequence[str], now: "Suite | None", out: Output
) -> "tuple[list[Regrade], list[TiltyardError]]":
    """Each episode graded again, by its task of ``now`` where that is given; and what kept others from it."""
    from tiltyard.errors import BadInput, InputMissing
    from tiltyard.reopen import regrading
    from workers.bootstrap.objects import open_objects

    found: list[Regrade] = []
    failed: list[TiltyardError] = []
    chosen = await _chosen(settings, names, out)
    with open_objects(settings) as objects:
        for recorded in chosen:
            try:
                trace, exams = await regrading.stored_facts(recorded, objects)
                if now is not None:
                    trace = regrading.with_task_of_now(trace, now.task(recorded.task))
                found.append(regrading.regrade(recorded, trace, exams))
            except (BadInput, InputMissing) as error:
                failed.append(error)
    return found, failed


async def _chosen(settings: "Settings", names: Sequence[str], out: Output) -> "list[EpisodeResult]":
    """The outcomes that are named, each once, those of globs the newest first.

    Of what a glob matches those without facts are left out, and counted. Raises ``BadInput`` for a name that is
    nobody's, and for an episode that has not ended.
    """
    from tiltyard.reopen.kept import no_such_episode, not_ended
    from workers.bootstrap.ground import open_records

    with open_records(settings) as records:
        planned = await records.episodes(EVERY) if records else ()
    chosen: dict[str, EpisodeResult] = {}
    for name in names or ("*",):
        matching = [(spec, result) for spec, result in planned if _fits(name, spec.episode_id, spec.task_id)]
        if not matching:
            raise no_such_episode(name)
        named = matching[0][0].episode_id == name
        ended = [result for _, result in matching if result is not None and (result.trace or named)]
        if named and not ended:
            raise not_ended(name)
        if left_out := len(matching) - len(ended):
            out.note(
                f"left out: {left_out} of {len(matching)} that have not ended, or of which no facts are stored"
            )
        chosen.update((one.episode_id, one) for one in ended)
    return list(chosen.values())


def _fits(name: str, episode_id: str, task_id: str) -> bool:
    """Whether an id or a glob means this episode. A glob with a slash is one of tasks, matched part by part."""
    if "/" not in name:
        return fnmatchcase(episode_id, name)
    globs = [*name.strip("/").split("/"), "*", "*"][:3]
    return all(fnmatchcase(part, glob) for part, glob in zip(task_id.split("/"), globs, strict=True))


def told(one: "Regrade") -> dict[str, Any]:
    """A regrade as one line of JSON."""
    dumped = one.model_dump(mode="json", exclude={"facts"})
    return {**dumped, "equal": not one.moved, "moved": [fact.model_dump(mode="json") for fact in one.moved]}


def _show(found: "Sequence[Regrade]", out: Output) -> None:
    if len(found) == 1:
        _show_one(found[0], out)
    elif found:
        _show_several(found, out)


def _show_one(one: "Regrade", out: Output) -> None:
    out.show(f"episode {one.episode_id}\ntask    {one.task}, policy {one.policy}, seed {one.seed}")
    out.show(f"graders {_graders(one)}")
    out.table(("FACT", "RECORDED", "NOW"), [(_name(fact), _brief(fact.before), _now(fact)) for fact in one.facts])
    for fact in one.moved:
        out.show("\n".join([f"moved: {_name(fact)}", *_lines("-", fact.before), *_lines("+", fact.after)]))
    for part in one.untold:
        out.show(f"not recorded then, so not compared: {part}")
    if not one.moved:
        out.show("nothing moved")


def _show_several(found: "Sequence[Regrade]", out: Output) -> None:
    rows = [
        (
            one.episode_id,
            one.task,
            one.policy,
            f"{one.before.score.total:.3f}",
            f"{one.after.score.total:.3f}",
            "the same" if one.before.graders == one.after.graders else "others",
            "; ".join(map(_name, one.moved)) or "nothing",
        )
        for one in found
    ]
    columns = ("EPISODE", "TASK", "POLICY", "#RECORDED", "#NOW", "GRADERS", "MOVED")
    out.table(columns, rows, ("GRADERS", "POLICY", "TASK"))
    moved = [one for one in found if one.moved]
    out.show(f"{len(found)} graded again; something moved in {len(moved)}")


def _graders(one: "Regrade") -> str:
    before, after = one.before.graders or "none", one.after.graders or "none"
    return f"{before}, the same now" if before == after else f"{before} then, {after} now"


def _name(fact: "Fact") -> str:
    return fact.name if fact.name == fact.part else f"{fact.part} {fact.name}"


def _brief(said: tuple[str, ...]) -> str:
    if not said:
        return "-"
    more = f" (+{len(said) - 1})" if len(said) > 1 else ""
    return (said[0] if len(said[0]) <= CELL else said[0][: CELL - 1] + "…") + more


def _now(fact: "Fact") -> str:
    return f"{_brief(fact.after)}  <- moved" if fact.moved else _brief(fact.after)


def _lines(mark: str, said: tuple[str, ...]) -> Iterator[str]:
    yield from (f"  {mark} {line}" for line in said or ("(none)",))
