"""What the doctor says of sandboxes: whether their host answers, and what each driver holds them to here."""

import asyncio
import subprocess
from collections import Counter
from typing import get_args

from pydantic import ValidationError

from infra.sandboxes.client import HostClient
from ops.cli.check import ANSWER_S, HANGS, Check, runs
from ops.cli.on_demand import MODULE
from schemas.sandbox import DriverName, Enforced, SandboxOffer, Sight
from tiltyard.errors import EnvironmentFailed
from workers.settings import Settings

TRIAL_S = 60
"""How long a driver may take to be tried out."""

GROUPS = (
    "each process by itself is held to it, and not all together, for no control groups can be made here",
    "run the stack as root, or in a group of your own: `systemd-run --user --scope -p Delegate=yes tiltyard up`",
)

NUMBER = ("the number of files is held by memory only, for only root can mount with such a limit", "")

NOT_HELD: dict[Enforced, tuple[str, str]] = {
    "memory": GROUPS,
    "processes": GROUPS,
    "processors": GROUPS,
    "file_count": NUMBER,
}
"""Why bubblewrap may not hold a sandbox to something that it holds it to elsewhere, and how to mend it."""


SIGHTS: dict[Sight, str] = {
    "every_exec": "every program",
    "connections": "attempts to connect",
    "marked_reads": "reads of marked files",
    "control_groups": "processes by control groups",
}
"""What is told of a sandbox, in a few words."""


def sandbox_host(settings: Settings) -> Check:
    """The process of the stack that has them all."""
    name = "sandbox host"
    if not runs(settings):
        return Check(name=name, ok=True, detail="not running")
    try:
        found = asyncio.run(_states(settings))
    except (EnvironmentFailed, TimeoutError):
        detail = f"does not answer at {settings.sandboxes_socket}"
        return Check(name=name, ok=False, detail=detail, fix=HANGS)
    there = ", ".join(f"{number} {state}" for state, number in sorted(found.items())) or "none"
    return Check(name=name, ok=True, detail=f"answers; sandboxes: {there}; at most {settings.slots} at once")


def bubblewrap(settings: Settings) -> Check:
    """The driver that episodes use unless they are told otherwise."""
    return driver_check(_offer(settings, "bubblewrap"))


def docker(settings: Settings) -> Check:
    """The driver of containers, where an engine answers. It has images of its own."""
    return driver_check(_offer(settings, "docker"))


def unsafe_local(settings: Settings) -> Check:
    """The driver for machines where no other works."""
    return driver_check(_offer(settings, "unsafe-local"))


def driver_check(offer: SandboxOffer) -> Check:
    """A driver that does not work is no fault of the stack: tasks without commands run all the same."""
    name = f"sandbox {offer.driver}"
    if not offer.available:
        detail = f"does not work here: {offer.problem}; tasks with commands cannot use it"
        return Check(name=name, ok=True, detail=detail, fix=offer.fix, missing=True)
    held = f"works; enforced: {', '.join(offer.enforced) or 'nothing'}; {_told(offer)}"
    lacking = [limit for limit in get_args(Enforced) if limit not in offer.enforced]
    if offer.driver == "unsafe-local":
        return Check(name=name, ok=True, detail=f"{held}; it isolates nothing")
    reasons = [NOT_HELD.get(limit, ("", "")) for limit in lacking]
    whys = [f"not {limit}{': ' if why else ''}{why}" for limit, (why, _) in zip(lacking, reasons, strict=True)]
    fixes = dict.fromkeys(fix for _, fix in reasons if fix)
    return Check(name=name, ok=True, detail="; ".join([held, *whys]), fix="; ".join(fixes), missing=bool(lacking))


def _told(offer: SandboxOffer) -> str:
    """What can be told of its sandboxes, and what cannot."""
    told = [words for sight, words in SIGHTS.items() if sight in offer.sees]
    unseen = [words for sight, words in SIGHTS.items() if sight not in offer.sees]
    programs = "" if "every_exec" in offer.sees else " (of programs those that are alive at a look)"
    lacks = f"; not told: {', '.join(unseen)}{programs}" if unseen else ""
    return f"told: {', '.join(told) or 'nothing'}{lacks}"


def _offer(settings: Settings, driver: DriverName) -> SandboxOffer:
    """The host's own, for what holds there is what counts; where it does not answer, that of a trial."""
    if runs(settings):
        try:
            return asyncio.run(_hosts_offer(settings, driver))
        except (EnvironmentFailed, TimeoutError):
            pass  # another check tells of that
    return _trial(driver)


def _trial(driver: DriverName) -> SandboxOffer:
    try:
        tried = subprocess.run(
            [*MODULE, "workers.sandbox_offers", driver], capture_output=True, text=True, timeout=TRIAL_S
        )
        return SandboxOffer.model_validate_json(tried.stdout)
    except (subprocess.TimeoutExpired, ValidationError) as error:
        said = tried.stderr.strip().splitlines()[-1:] if isinstance(error, ValidationError) else ["it hung"]
        problem = f"trying it out failed: {' '.join(said)[:300]}"
        return SandboxOffer(driver=driver, available=False, problem=problem, fix="see `tiltyard logs sandboxes`")


async def _hosts_offer(settings: Settings, driver: DriverName) -> SandboxOffer:
    async with asyncio.timeout(ANSWER_S), HostClient(settings.sandboxes_socket) as host:
        return await host.offer(driver)


async def _states(settings: Settings) -> Counter[str]:
    async with asyncio.timeout(ANSWER_S), HostClient(settings.sandboxes_socket) as host:
        return Counter(record.state for record in await host.sandboxes())
