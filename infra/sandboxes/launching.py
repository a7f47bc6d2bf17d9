"""What the sandbox host needs of a driver: to start a supervisor in a place of its own, and to end all of it."""

import socket
from pathlib import Path
from typing import Protocol

from schemas.base import Model
from schemas.sandbox import DriverName, Isolation, SandboxOffer, SandboxOrder


class MadeOf(Model):
    """What a sandbox was made of, in the words of its facts: the id of an image, where its driver has any, and how
    many other sandboxes it was before."""

    image: str = ""
    isolation: Isolation = "fresh"
    served_before: int = 0


ITSELF = MadeOf()
"""Of drivers that make each sandbox anew, and of no image."""


class Renewal(Protocol):
    """How a drained sandbox is made to be nobody's again, for its driver to keep. Each step is done once, and in a
    thread; one that fails leaves a sandbox to be ended."""

    def begin(self) -> dict[str, object]:
        """See that it is empty, and note that it is under way: if the host dies from here on, it is not used again.
        The fields of the request ``renew``. Raises ``EnvironmentFailed`` and ``OSError``."""
        ...

    def finish(self) -> bool:
        """Once the supervisor has done that and was hung up on: clear it, and prove that nothing is left. Whether
        the driver has it now, or has ended it; its ``end`` is for whoever is told no."""
        ...


class Launched(Protocol):
    """A sandbox whose supervisor waits for its first frame on ``control``.

    ``control`` is a connected stream socket; its hang-up means that the sandbox is gone. ``identity`` is what a
    later host process needs to find what is left of it: small JSON data, recorded before the first frame.
    ``made_of`` is for its facts. ``setup`` are the fields of that frame that the driver knows: ``uid``, ``gid``,
    ``pid_one``. ``journal`` is what its supervisor writes down. ``renewal`` is there where it can be used again:
    others are ended.
    """

    control: socket.socket
    identity: dict[str, object]
    made_of: MadeOf
    setup: dict[str, object]
    journal: Path
    renewal: Renewal | None

    def processes(self) -> tuple[int, ...]:
        """Host process ids of all that live in it, the supervisor included, found by looking from outside; in a
        thread too."""
        ...

    def memory_kills(self) -> int:
        """How many of its processes the machine has ended for want of memory so far; always 0 where it cannot
        tell. A command that SIGKILL ended while this grew ended ``out_of_memory``."""
        ...

    def end(self) -> bool:
        """SIGKILL all of it, from outside; wait a few seconds for its last process to end, then remove what is left
        of it (control groups, folders); whether nothing is left. Again: tries again with what was left.

        The host does it in a thread, and never twice at once.
        """
        ...


class Launcher(Protocol):
    """One driver on one host."""

    driver: DriverName

    def offer(self) -> SandboxOffer:
        """Whether it works here, found out by trying: once if it does. Raises ``EnvironmentFailed`` when an error
        that passes leaves it open."""
        ...

    async def launch(self, order: SandboxOrder, folder: Path) -> Launched:
        """Start a supervisor. ``folder`` is the sandbox's own on the host, private and outside of the sandbox; the
        supervisor's journal is ``folder/journal``.

        Raises ``SandboxUnavailable`` where it does not work here. ``OSError`` and ``EnvironmentFailed`` say that it
        failed this time: nothing is left of it, and it may be tried again.
        """
        ...

    async def find(self, identity: dict[str, object]) -> Launched | None:
        """A sandbox that outlived the host process which launched it, to be asked from now on; ``None`` where there
        is none. Raises ``EnvironmentFailed`` when that cannot be told now."""
        ...

    def sweep(self, identity: dict[str, object]) -> bool:
        """End what an earlier host process left of a sandbox; whether nothing of it is left. In a thread too.

        ``folder`` in ``identity`` is always the sandbox's folder. The rest of it is missing where that process
        died while it launched the sandbox, or where the record cannot be read.
        """
        ...

    def strays(self) -> int:
        """End whatever bears the mark of this launcher's host and is of no sandbox that it has launched, has found
        or is launching at this moment; how many there were. In a thread.

        Raises ``EnvironmentFailed`` when that cannot be told now.
        """
        ...
