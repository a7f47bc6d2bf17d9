"""Whether sandboxes can be made here, asked before trials are planned that need some."""

from collections.abc import Iterable

from infra.sandboxes.client import HostClient
from schemas.sandbox import DriverName
from schemas.task import Task
from tiltyard.errors import SandboxUnavailable, SandboxUnreachable
from workers.settings import Settings


async def require_driver(settings: Settings, driver: DriverName | None, tasks: Iterable[Task]) -> None:
    """Raises ``SandboxUnavailable`` where one of the tasks runs commands, and the driver cannot be used here.

    A host that does not answer says nothing: its trials wait until one does.
    """
    needing = next((task.id for task in tasks if task.needs_sandbox), None)
    if needing is None or driver is None:
        return
    try:
        async with HostClient(settings.sandboxes_socket) as sandboxes:
            offer = await sandboxes.offer(driver)
    except SandboxUnreachable:
        return
    if not offer.available:
        why = f"{needing} runs commands, and {driver} does not work here: {offer.problem}; nothing was planned"
        raise SandboxUnavailable(why, fix=offer.fix)
