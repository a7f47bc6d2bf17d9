"""The worker process: workflows, activities and the janitor's schedule."""

import asyncio
import logging
import os
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
)
from temporalio.service import RPCError
from tenacity import before_sleep_log, retry, retry_if_exception_type, wait_random_exponential

from infra.local.processes import keep_to_itself
from schemas.upkeep import UpkeepOrder
from workers.assembly import at_work
from workers.beat import beat_until, stop_at_signals
from workers.bootstrap.worker import open_parts
from workers.builds import build_id
from workers.connect import connect
from workers.drills import kill_after_commit
from workers.frozen import freeze
from workers.passes import janitor_of
from workers.process import run
from workers.settings import Settings
from workflows.janitor import JanitorWorkflow

log = logging.getLogger(__name__)


async def serve(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT."""
    stop = stop_at_signals()
    client = await _unless(stop, _connected(settings))
    if client is None:
        return
    async with open_parts(settings, client, adopts=True) as parts:
        log.info("working for the host %s", settings.host)
        async with at_work(
            client, parts, settings, kill_after_commit(settings.kill_after_commit), build=build_id()
        ):
            settings.worker_ready.write_text(f"{os.getpid()}\n")
            await beat_until(stop, settings.worker_ready)
            settings.worker_ready.unlink(missing_ok=True)


async def _unless(stop: asyncio.Event, starting: Coroutine[Any, Any, Client]) -> Client | None:
    """What is being started, or ``None`` when we are asked to stop first."""
    stopped, task = asyncio.create_task(stop.wait()), asyncio.create_task(starting)
    await asyncio.wait({stopped, task}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    return task.result() if task.done() else None


@retry(
    retry=retry_if_exception_type((RuntimeError, RPCError)),  # what the SDK raises while nobody listens
    wait=wait_random_exponential(multiplier=0.1, max=2),
    before_sleep=before_sleep_log(log, logging.INFO),
)
async def _connected(settings: Settings) -> Client:
    """A client, with the janitor's schedule in place; a server that is starting or restarting is outwaited."""
    client = await connect(settings)
    await keep_janitor(client, settings)
    return client


def upkeep_order(settings: Settings) -> UpkeepOrder:
    """What a pass of the janitor is told."""
    return UpkeepOrder(
        tuning=settings.tuning,
        grace_s=settings.janitor_grace.total_seconds(),
        stranded_s=settings.stranded.total_seconds(),
        interval_s=settings.janitor_interval.total_seconds(),
    )


async def keep_janitor(client: Client, settings: Settings) -> None:
    """Have the janitor on a schedule, with these settings; a pass that is late skips the next one."""
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(
            JanitorWorkflow.run,
            upkeep_order(settings),
            id=janitor_of(settings),
            task_queue=settings.task_queue,
            execution_timeout=timedelta(minutes=10),
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=settings.janitor_interval)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP),
    )
    try:
        await client.create_schedule(janitor_of(settings), schedule, trigger_immediately=True)
    except ScheduleAlreadyRunningError:
        handle = client.get_schedule_handle(janitor_of(settings))
        await handle.update(lambda _: ScheduleUpdate(schedule=schedule))
        await handle.trigger()  # of episodes that an older version began nobody has looked after so far


def work() -> None:
    """Run a worker with the environment's settings, which policies of the same user must not read."""
    keep_to_itself()
    settings = Settings.from_environment()
    freeze_workflows()
    asyncio.run(serve(settings))


def freeze_workflows() -> None:
    """Have every run of a workflow load the code that is there now."""
    freeze("workflows", Path(__file__).resolve().parents[1])


if __name__ == "__main__":
    run(work)
