"""The sandbox host process: sandboxes outlive the workers that use them."""

import asyncio
import logging

from infra.local.processes import keep_to_itself
from infra.sandboxes.serve import serving
from workers.beat import beat_until, stop_at_signals
from workers.bootstrap.sandboxes import open_host
from workers.process import run
from workers.settings import Settings

log = logging.getLogger(__name__)


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; then end every sandbox."""
    stop = stop_at_signals()
    log.info("hosting up to %d sandboxes", settings.slots)
    async with open_host(settings) as host, serving(host, settings.sandboxes_socket):
        await beat_until(stop, settings.sandboxes_socket)


def work() -> None:
    """Host sandboxes with the environment's settings."""
    keep_to_itself()
    asyncio.run(serve(Settings.from_environment()))


if __name__ == "__main__":
    run(work)
