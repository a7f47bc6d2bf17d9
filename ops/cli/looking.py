"""Looking at episodes, starting nothing: records tell of those that have ended, a running stack of the others."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from infra.local.paths import StackPaths
from infra.local.stack import look, note_activity
from ops.cli.counting import counted
from ops.cli.output import Output
from ops.cli.results import end_of, rules
from ops.cli.watching import phase_of
from schemas.episode import EpisodeResult, EpisodeSpec
from schemas.status import EpisodeStatus
from tiltyard.ports import Records
from tiltyard.reopen.kept import no_such_episode, not_ended
from workers.bootstrap.ground import open_ground, open_records
from workers.ground import Ground
from workers.settings import Settings

ASKED = 50
"""Open episodes that a list asks for their phase, the newest ones."""

COLUMNS = ("EPISODE", "TASK", "POLICY", "ORIGIN", "#SEED", "STATE", "#SCORE", "RISK")

IF_ANY = ("ORIGIN", "RISK")
"""Columns that are there where some row has something in them."""

SPARE = ("#SEED", "POLICY")
"""What a list can do without on a narrow terminal; the first one first."""

PAGE = 100
"""Episodes that are read at once in search of those that a list shows."""

PATIENCE_S = 5.0
"""How long a list waits for all of them: one whose worker is away does not answer."""


async def show_list(home: Path | None, limit: int, out: Output, *, probes: bool = False) -> None:
    """Print the newest episodes. What ``episodes minimise`` plays is among them only where ``probes`` is set."""
    settings = Settings.from_environment(home)
    with open_records(settings) as records:
        found, left_out = await _newest(records, limit, probes) if records else ([], 0)
    statuses = await _statuses(settings, [spec.episode_id for spec, result in found if result is None][:ASKED])
    for spec, result in found:
        out.value(listed(spec, result, statuses.get(spec.episode_id)))
    rows = [
        (
            spec.episode_id,
            spec.task_id,
            spec.policy.target,
            spec.origin.kind if spec.origin else "-",
            str(spec.seed),
            state_of(spec, result, statuses.get(spec.episode_id)),
            f"{result.score.total:.2f}" if result else "",
            ", ".join(rules(result)) if result else "",
        )
        for spec, result in found
    ]
    kept = [
        at for at, head in enumerate(COLUMNS) if head not in IF_ANY or any(row[at] not in ("", "-") for row in rows)
    ]
    out.table([COLUMNS[at] for at in kept], [[row[at] for at in kept] for row in rows], SPARE)
    if left_out:
        out.note(f"left out: {counted(left_out, 'probe')} of `episodes minimise`, which --probes lists")


async def _newest(
    records: Records, limit: int, probes: bool
) -> tuple[list[tuple[EpisodeSpec, EpisodeResult | None]], int]:
    """The newest episodes, and how many probes there are between them."""
    found: list[tuple[EpisodeSpec, EpisodeResult | None]] = []
    left_out, page = 0, await records.episodes(min(limit, PAGE))
    while page:
        for one in page:
            if probes or one[0].origin is None or one[0].origin.kind != "probe":
                found.append(one)
            else:
                left_out += 1
            if len(found) == limit:
                return found, left_out
        page = await records.episodes(PAGE, before=page[-1][0].episode_id)
    return found, left_out


async def recorded(settings: Settings, episode_id: str) -> tuple[EpisodeSpec, EpisodeResult | None]:
    """An episode, and its result where it has ended. Raises ``BadInput`` when there is no such episode."""
    with open_records(settings) as records:
        spec = await records.spec(episode_id) if records else None
        result = await records.result(episode_id) if records else None
    if spec is None:
        raise no_such_episode(episode_id)
    return spec, result


async def ended(settings: Settings, episode_id: str) -> EpisodeResult:
    """What came of an episode. Raises ``BadInput`` where there is none, and where it has not ended."""
    _, result = await recorded(settings, episode_id)
    if result is None:
        raise not_ended(episode_id)
    return result


def listed(spec: EpisodeSpec, result: EpisodeResult | None, status: EpisodeStatus | None) -> dict[str, Any]:
    """An episode as one line of JSON."""
    return {
        "episode_id": spec.episode_id,
        "task": spec.task_id,
        "policy": spec.policy.target,
        "seed": spec.seed,
        "phase": "done" if result else status.phase if status else None,
        "paused": status.paused if status else False,
        "end": result.end if result else None,
        "validity": result.validity if result else None,
        "score": result.score.total if result else None,
        "risks": rules(result) if result else [],
        "sandbox": spec.sandbox,
        "origin": spec.origin.model_dump() if spec.origin else None,
        "failing": [one.model_dump() for one in status.failing] if status else [],
    }


def state_of(spec: EpisodeSpec, result: EpisodeResult | None, status: EpisodeStatus | None) -> str:
    """How an episode ended or where it is, marked when nothing isolates it."""
    if result is not None:
        return end_of(result)
    return _phase(status) + (" (unsafe-local)" if spec.sandbox == "unsafe-local" else "")


def _phase(status: EpisodeStatus | None) -> str:
    """One word where one will do: most phases are steps of a running episode."""
    if status is None:
        return "open"
    phase, _, marks = phase_of(status).partition(", ")
    shown = "running" if phase in ("leasing", "turns", "waiting", "closing") and "paus" not in marks else phase
    return ", ".join(filter(None, (shown, marks)))


async def open_statuses(settings: Settings) -> tuple[EpisodeStatus, ...]:
    """The status of each episode without an end that says it in time; none without a stack."""
    with open_records(settings) as records:
        found = await records.unfinished(timedelta()) if records else ()
    return tuple((await _statuses(settings, [spec.episode_id for spec in found])).values())


async def _statuses(settings: Settings, episode_ids: Sequence[str]) -> dict[str, EpisodeStatus]:
    """The status of each open episode that says it in time, if a stack runs."""
    found: dict[str, EpisodeStatus] = {}
    if not episode_ids:
        return found

    async def ask(ground: Ground, episode_id: str) -> None:
        with suppress(Exception):  # the list says "open" of this one
            found[episode_id] = await ground.status(episode_id)

    with suppress(Exception):  # a stack that is ending: they are all "open"
        async with asyncio.timeout(PATIENCE_S), running(settings) as ground:
            if ground is not None:
                await asyncio.gather(*(ask(ground, episode_id) for episode_id in episode_ids))
    return found


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Ground | None]:
    """The ground of the stack that runs already, if one does."""
    paths = StackPaths(settings.home)
    state = look(paths)
    if state is None or state.phase != "ready":
        yield None
        return
    note_activity(paths)
    async with open_ground(settings.model_copy(update={"temporal_address": state.address})) as ground:
        yield ground
