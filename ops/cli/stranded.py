"""Episodes that wait for a worker of another version of the workflows' code, as the janitor last saw them."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from infra.local.paths import StackPaths
from infra.local.state import read_state
from ops.cli.check import Check
from ops.cli.counting import counted
from tiltyard.errors import EnvironmentFailed
from workers.settings import Settings

if TYPE_CHECKING:
    from schemas.upgrade import Stranded

PATIENCE_S = 5.0
"""How long the server has to answer."""

NAMED = 5
"""Episodes that are named; the others are counted."""

FIX = (
    "go back to the code that began them and run `tiltyard up` until they have ended; or leave them to the "
    "janitor, which ends them in time (TILTYARD_STRANDED_S); docs/upgrades.md says more"
)


def stranded(settings: Settings) -> "tuple[Stranded, ...]":
    """None where no stack runs. Raises ``EnvironmentFailed`` when its server does not answer in time."""
    state = read_state(StackPaths(settings.home).state)
    if state is None or not state.running or state.phase != "ready":
        return ()
    return asyncio.run(_asked(settings.model_copy(update={"temporal_address": state.address})))


async def _asked(settings: Settings) -> "tuple[Stranded, ...]":
    from workers.connect import connect  # slow to import, and only a running stack can be asked
    from workers.passes import last_pass

    try:
        async with asyncio.timeout(PATIENCE_S):
            last = await last_pass(await connect(settings), settings)
    except (TimeoutError, RuntimeError) as error:  # what the SDK raises while nobody listens
        raise EnvironmentFailed(f"the Temporal server does not answer: {error}") from error
    return last.stranded if last else ()


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
    name = "versions"
    found = stranded(settings)
    if found:
        return Check(name=name, ok=False, detail=told(settings, found), fix=FIX)
    return Check(name=name, ok=True, detail="every episode has a worker with its version of the code")
