"""The sandbox as its supervisor has it in hand."""

from __future__ import annotations

import os

from infra.sandboxes.supervisor.children import Children
from infra.sandboxes.supervisor.connections import Connections
from infra.sandboxes.supervisor.dealings import Dealings
from infra.sandboxes.supervisor.files import FOLDER, Agent, close_folders, put_start
from infra.sandboxes.supervisor.kernel import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    Kernel,
)
from infra.sandboxes.supervisor.loop import Clock, Loop
from infra.sandboxes.supervisor.marks import File, Marks, Reader, who_has_open
from infra.sandboxes.supervisor.messages import bad, is_no_utf8
from infra.sandboxes.supervisor.processes import Reach
from infra.sandboxes.supervisor.programs import Programs
from infra.sandboxes.supervisor.receipts import Journal
from infra.sandboxes.supervisor.recipe import OutOfMemoryScores, Recipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Sandbox:
    """What serves a sandbox, and what it is told by ``setup``, which is there from then on."""

    agent: Agent
    environment: dict[str, str]
    limits: dict[str, Any]
    reach: Reach
    recipe: Recipe

    def __init__(self, journal: int, proc: int | None) -> None:
        self.loop, self.clock, self.kernel = Loop(), Clock(), Kernel()
        self.journal = Journal(journal, self.clock)
        self.scores = OutOfMemoryScores(proc)
        self.kernel.stop_ignoring_its_own()
        self.kernel.prctl(PR_SET_DUMPABLE, 0)
        self.kernel.prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
        self.connections = Connections(self.clock, self.journal)
        self.programs = Programs(self.kernel, self.loop, self.clock, self.connections)
        self.marks = Marks(self.kernel, self.clock, self.journal, self.reader_of)
        self.children, self.dealings = Children(self.loop), Dealings()
        self.work = -1

    @property
    def is_set_up(self) -> bool:
        return self.work >= 0

    def set_up(self, request: dict[str, Any]) -> None:
        """Be this sandbox, once: its files, environment, limits, and who its commands run as.

        ``work`` is the work folder, ``own_user`` says that nobody outside has this user, ``sync`` asks the journal
        to wait for the disk.
        """
        if self.is_set_up:
            raise bad("has been set up already", "sandbox")
        pid_one = bool(request.get("pid_one", False))
        if pid_one and os.getpid() != 1:
            raise bad("this supervisor is not PID 1 of a namespace of its own", "pid_one", "say so")
        path = request.get("work", "/work")
        environment = environment_of(path, request.get("environment", {}))
        limits, agent = request["limits"], Agent(request.get("uid"), request.get("gid"))
        work = os.open(path, FOLDER)
        try:
            recipe = Recipe(work, environment, limits, agent, bool(request.get("own_user", pid_one)))
            self._put_files(work, agent, request)
        except BaseException:
            os.close(work)
            raise
        self.agent = self.programs.agent = agent
        self.recipe, self.limits, self.environment = recipe, limits, environment
        self.reach, self.journal.sync, self.work = Reach(pid_one), bool(request.get("sync", False)), work
        self.clock.begin()

    def _put_files(self, work: int, agent: Agent, request: dict[str, Any]) -> None:
        """The files that it begins with, and be told of reads of those that are marked."""
        with agent:
            folders = put_start(work, request.get("start", {}).get("entries", []), request["tail"])
            self.marks.watch(work, request.get("marked", {}))
            close_folders(work, folders)
        if self.marks.fd >= 0:
            self.loop.on(self.marks.fd, self.marks.collect)

    def reader_of(self, file: File) -> Reader | None:
        """Who has a file open, and of which operation."""
        process = who_has_open(file, self.reach.others(), self.agent)
        return None if process is None else (process, self.programs.operation_of(process))

    def renew(self, journal: int) -> None:
        """Be no sandbox yet, as at the start; the descriptors of the one before are closed."""
        os.close(self.work)
        os.close(self.journal.fd)
        del self.agent, self.environment, self.limits, self.reach, self.recipe
        self.journal, self.work = Journal(journal, self.clock), -1
        self.loop.off(self.marks.fd)
        self.marks.renew(self.journal)
        self.connections.renew(self.journal)
        self.programs.renew()
        self.children.renew()
        self.dealings = Dealings()


def environment_of(work: str, asked: dict[str, str]) -> dict[str, str]:
    """What commands find around them: the driver's ``PATH``, the usual, and what is asked for."""
    path = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")  # noqa: TID251 what the driver says of the place
    environment = {"PATH": path, "HOME": work, "LANG": "C.UTF-8"} | asked
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name + value or is_no_utf8(name + value):
            raise bad("is no name with a value", f"environment: {name[:100]!a}")
    return environment
