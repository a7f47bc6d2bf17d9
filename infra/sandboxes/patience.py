"""How long a supervisor may be silent."""

import asyncio
from collections.abc import Awaitable, Callable

from infra.sandboxes.link import Link
from schemas.base import Model

MISSES = 2
"""Pings in a row without an answer that a supervisor is dead after."""


class Patience(Model):
    """How long a supervisor may take to answer, in seconds. One that takes longer is killed: its sandbox is lost.

    ``answer_s`` is what anything may take beyond the time that its request gives it. ``alone_s`` is how long a
    drained one may be seen in company, from outside: what was killed takes a moment to go. Every ``ping_s`` it is
    asked for a sign of life, whether or not anybody else asks for something; it may miss one.
    """

    answer_s: float = 60
    drain_s: float = 30
    alone_s: float = 2
    ping_s: float = 30


PATIENCE = Patience()


async def until_silent(
    link: Link, ping: Callable[[], Awaitable[object]], every_s: float, is_busy: Callable[[], bool]
) -> bool:
    """Wait until the other side has hung up, or has missed ``MISSES`` pings in a row; whether it was silence.

    While it ``is_busy`` with what it cannot be disturbed in, it has missed nothing.
    """
    loop, missed = asyncio.get_running_loop(), 0
    while missed < MISSES:
        until = loop.time() + every_s
        missed = 0 if await _in_time(ping(), until) or is_busy() else missed + 1
        if await _in_time(link.wait_closed(), until):
            return False
    return True


async def _in_time(answer: Awaitable[object], until: float) -> bool:
    """Whether it came before this time of the loop's clock."""
    try:
        async with asyncio.timeout_at(until):
            await answer
    except TimeoutError:
        return False
    return True
