"""The worker process: workflows, activities and the janitor's schedule."""

import asyncio
import logging
import os
import signal
import sys
from datetime import timedelta

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

from schemas.upkeep import UpkeepOrder
from workers.assembly import activities_of, worker_of
from workers.bootstrap import open_parts
from workers.connect import connect
from workers.drills import kill_after_commit
from workers.settings import Settings
from workflows.janitor import JanitorWorkflow

CONNECT_EVERY_S = 0.2
"""Between tries to reach a Temporal server that is still starting."""


async def serve(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    client = await _connected(settings, stop)
    if client is None:
        return
    async with open_parts(settings, client) as parts:
        await keep_janitor(client, settings)
        activities = activities_of(parts, settings, kill_after_commit(settings.kill_after_commit))
        async with worker_of(client, activities, settings.task_queue):
            settings.worker_ready.write_text(f"{os.getpid()}\n")
            await stop.wait()
            settings.worker_ready.unlink(missing_ok=True)


async def _connected(settings: Settings, stop: asyncio.Event) -> Client | None:
    while not stop.is_set():
        try:
            return await connect(settings)
        except RuntimeError as error:  # what the SDK raises while nobody listens
            logging.info("waiting for Temporal at %s: %s", settings.temporal_address, error)
            await asyncio.sleep(CONNECT_EVERY_S)
    return None


async def keep_janitor(client: Client, settings: Settings) -> None:
    """Have the janitor on a schedule, with these settings; a pass that is late skips the next one."""
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(
            JanitorWorkflow.run,
            UpkeepOrder(tuning=settings.tuning, grace_s=settings.janitor_grace.total_seconds()),
            id=f"janitor/{settings.task_queue}",
            task_queue=settings.task_queue,
            execution_timeout=timedelta(minutes=10),
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=settings.janitor_interval)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP),
    )
    name = f"janitor/{settings.task_queue}"
    try:
        await client.create_schedule(name, schedule, trigger_immediately=True)
    except ScheduleAlreadyRunningError:
        await client.get_schedule_handle(name).update(lambda _: ScheduleUpdate(schedule=schedule))


def main() -> None:
    """Run a worker with the environment's settings."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(serve(Settings.from_environment()))
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the SDK's threads can crash an interpreter that is being taken down


if __name__ == "__main__":
    main()
