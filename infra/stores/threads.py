"""Database work off the event loop: sessions are synchronous, the ports are not."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sqlalchemy.exc import OperationalError

from tiltyard.errors import EnvironmentFailed

__all__ = ["in_thread"]

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run one transaction in a thread. Raises ``EnvironmentFailed`` when the database cannot be used.

    A caller that is cancelled does not take the transaction back; it must be safe to repeat.
    """
    try:
        return await asyncio.to_thread(work, *args, **kwargs)
    except OperationalError as error:
        raise EnvironmentFailed(f"the database cannot be used: {error.orig}") from error
