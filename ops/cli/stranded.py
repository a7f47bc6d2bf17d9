"""What the janitor's last pass has told: episodes that wait for a worker of another version of the workflows' code,
and what it could not do."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from infra.local.databases import open_episodes
from infra.local.paths import StackPaths
from infra.local.state import read_state
from ops.cli.check import Check
from ops.cli.counting import counted
from tiltyard.errors import EnvironmentFailed
from workers.settings import Settings

if TYPE_CHECKING:
    from schemas.upgrade import Stranded
    from schemas.upkeep import UpkeepSummary

VERSIONS, JANITOR = "versions", "janitor"

UNTOLD = "not known: no pass of the janitor has told anything lately"

PATIENCE_S = 5.0
"""How long the server has to answer."""

NAMED = 5
"""Episodes or problems that are named; the others are counted."""

FIX = (
    "go back to the code that began them and run `tiltyard up` until they have ended; or leave them to the "
    "janitor, which ends them in time (TILTYARD_STRANDED_S); docs/upgrades.md says more"
)


def stranded(settings: Settings) -> "tuple[Stranded, ...]":
    """None where no stack runs. Raises ``EnvironmentFailed`` when its server does not answer in time."""
    address = _ready(settings)
    last = _last_pass(settings, address) if address else None
    return last.stranded if last else ()


def _ready(settings: Settings) -> str:
    """Where the stack's server can be asked; empty where none runs."""
    state = read_state(StackPaths(settings.home).state)
    return state.address if state is not None and state.running and state.phase == "ready" else ""


def _last_pass(settings: Settings, address: str) -> "UpkeepSummary | None":
    return asyncio.run(_asked(settings.model_copy(update={"temporal_address": address})))


async def _asked(settings: Settings) -> "UpkeepSummary | None":
    from workers.connect import connect  # slow to import, and only a running stack can be asked
    from workers.passes import last_pass

    try:
        async with asyncio.timeout(PATIENCE_S):
            return await last_pass(await connect(settings), settings)
    except (TimeoutError, RuntimeError) as error:  # what the SDK raises while nobody listens
        raise EnvironmentFailed(f"the Temporal server does not answer: {error}") from error


def told(settings: Settings, found: "tuple[Stranded, ...]") -> str:
    """What a person is told of them: which they are, why, and how long they still wait."""
    names = ", ".join(one.episode_id for one in found[:NAMED]) + (", …" if len(found) > NAMED else "")
    first = min(found, key=lambda one: -one.waited_s)
    left = timedelta(seconds=max(0, int(settings.stranded.total_seconds() - first.waited_s)))
    return (
        f"{counted(len(found), 'episode')} cannot go on with this code, and no worker has theirs "
        f"(version {first.version}): {names}; {first.reason}; the first is ended in {left}"
    )


def versions(settings: Settings) -> Check:
    """Whether each open episode has a worker that can go on with it."""
    if not open_episodes(settings.home / "records.db"):
        return Check(name=VERSIONS, ok=True, detail="no episode is open")
    if not (address := _ready(settings)):
        return Check(name=VERSIONS, ok=True, known=False, detail="not known: no stack is running")
    return versions_of(settings, _last_pass(settings, address))


def versions_of(settings: Settings, last: "UpkeepSummary | None") -> Check:
    """The same, by what the last pass has told; none: none has lately."""
    if last is not None and last.stranded:
        return Check(name=VERSIONS, ok=False, detail=told(settings, last.stranded), fix=FIX)
    if last is None or last.problems:
        why = UNTOLD if last is None else "not known: the last pass of the janitor could not do all"
        return Check(name=VERSIONS, ok=True, known=False, detail=why)
    return Check(name=VERSIONS, ok=True, detail="every episode has a worker with its version of the code")


def janitor(settings: Settings) -> Check:
    """Whether what was left behind is taken back."""
    if not (address := _ready(settings)):
        return Check(name=JANITOR, ok=True, detail="not running")
    return janitor_of(settings, _last_pass(settings, address))


def janitor_of(settings: Settings, last: "UpkeepSummary | None") -> Check:
    """The same, by what the last pass has told; none: none has lately."""
    if last is None:
        return Check(name=JANITOR, ok=True, known=False, detail=UNTOLD)
    if not last.problems:
        return Check(name=JANITOR, ok=True, detail="its last pass did all that there was to do")
    more = [f"and {left} more"] if (left := len(last.problems) - NAMED) > 0 else []
    detail = f"its last pass could not do all: {'; '.join([*last.problems[:NAMED], *more])}"
    every = f"{settings.janitor_interval.total_seconds():.0f} s"
    return Check(
        name=JANITOR, ok=False, detail=detail, fix=f"it is tried again every {every}; if it stays, mend that"
    )
