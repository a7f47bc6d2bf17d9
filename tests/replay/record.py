"""Record the histories that ``test_replay`` replays: ``.venv/bin/python -m tests.replay.record``.

Only kinds of which none is saved are recorded, or those that are named: ``… record submitted stalled``. One that is
saved was recorded by older code, and that is what it is for. Record it again when an incompatible change of a
workflow is meant, and no episode of the old code runs any more. Otherwise a mismatch calls for
``workflow.patched``.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from temporalio.client import Client, WorkflowContinuedAsNewError, WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from infra.local.temporal import temporal_binary
from schemas.episode import workflow_id
from tests.replay import ends, kinds, passes, reopened
from tests.replay.kinds import Runs
from tests.workflow.arena import Arena, arena
from workers.histories import document_of

HISTORIES = Path(__file__).parent / "histories"

BY_THEMSELVES = (*ends.BY_THEMSELVES, *passes.BY_THEMSELVES, *reopened.BY_THEMSELVES)
KINDS: tuple[Callable[[Arena], Awaitable[Runs]], ...] = (
    *(*kinds.KINDS, *ends.KINDS, *passes.KINDS, *reopened.KINDS),
    *BY_THEMSELVES,
)


def saved_of(kind: str) -> list[Path]:
    """The files of a kind: one, or one for each of its runs."""
    return sorted(path for path in HISTORIES.glob("*.json") if path.stem.partition(".")[0] == kind)


async def record(client: Client, kind: Callable[[Arena], Awaitable[Runs]]) -> None:
    with tempfile.TemporaryDirectory() as home:
        async with AsyncExitStack() as working:
            policies = {**kinds.POLICIES, **ends.ENDS, **reopened.REOPENED}
            place = await working.enter_async_context(arena(client, policies, Path(home)))
            if kind not in BY_THEMSELVES:
                await working.enter_async_context(place.worker())
            found = await kind(place)
            runs = {"": (workflow_id(found), None)} if isinstance(found, str) else found
            for part, (name, run_id) in runs.items():
                await _save(client, f"{kind.__name__}{'.' if part else ''}{part}", name, run_id)


async def _save(client: Client, stem: str, name: str, run_id: str | None) -> None:
    handle = client.get_workflow_handle(name, run_id=run_id)
    with suppress(WorkflowFailureError, WorkflowContinuedAsNewError):
        await handle.result(follow_runs=False)
    document = document_of(await handle.fetch_history())
    (HISTORIES / f"{stem}.json").write_text(json.dumps(document, indent=1) + "\n")


async def main(wanted: Sequence[str]) -> None:
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=temporal_binary(), data_converter=pydantic_data_converter
    ) as environment:
        for kind in KINDS:
            if kind.__name__ in wanted or not (wanted or saved_of(kind.__name__)):
                print(kind.__name__, flush=True)
                await record(environment.client, kind)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
