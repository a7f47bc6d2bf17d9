"""Containers that wait for a sandbox: those that were made before one was asked for, and those that were reset."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from infra.sandboxes.docker.demand import WINDOW_S, target
from infra.sandboxes.docker.member import Kind, Member
from tiltyard.errors import TiltyardError

log = logging.getLogger(__name__)

MOST_SERVED, OLDEST_S = 100, 3600.0
"""After so many sandboxes, and so many seconds, a container is not used again, whatever it looks like."""

SPARE_S = 60.0
"""How long one waits beyond what is wanted, in seconds, before it is ended."""

TEND_S, BACK_OFF_S = 2.0, 10.0
"""How often the pool is looked after while there is something in it, and when one is tried again that could not be
made."""

FIRST_GUESS_S = 0.5
"""What making one takes, until one was made."""

MOST_ARRIVALS = 1000


class Need(NamedTuple):
    """What a sandbox can be made of. ``unused``: what was no sandbox yet."""

    kind: Kind
    unused: bool

    def is_met_by(self, member: Member) -> bool:
        return member.kind == self.kind and not (self.unused and member.served)


class Idle(NamedTuple):
    """One that waits, since this reading of the clock."""

    member: Member
    since: float


class Demand:
    """When one was needed, and how long it takes to make one."""

    def __init__(self) -> None:
        self.arrivals: deque[float] = deque(maxlen=MOST_ARRIVALS)
        self.refill_s = FIRST_GUESS_S
        self.not_before = 0.0

    def made(self, took_s: float) -> None:
        """The last ones count most: a machine is not always equally busy."""
        self.refill_s += (took_s - self.refill_s) / 4


class Pool:
    """At most ``most`` containers that wait; with 0 there is no pool. ``make`` makes one, and raises; ``end``
    ends that of a folder, and says whether nothing is left. For any thread.
    """

    def __init__(
        self,
        make: Callable[[Kind], Member],
        end: Callable[[Path], bool],
        most: int,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._make, self._end, self._most, self._clock, self._now = make, end, most, clock, now
        self._idle: list[Idle] = []
        self._demand: dict[Need, Demand] = {}
        self._lock = threading.Lock()
        self._closed = False

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, need: Need) -> Member | None:
        """One that waits, which is the caller's from now on; ``None`` where there is none.

        Where used ones do they are taken first: others may need those that are not.
        """
        if not self._most:
            return None
        with self._lock:
            self._demand.setdefault(need, Demand()).arrivals.append(self._clock())
            fit = [one for one in self._idle if need.is_met_by(one.member) and self._fits(one.member)]
            if not fit:
                return None
            best = max(fit, key=lambda one: (one.member.served > 0, one.since))
            self._idle.remove(best)
            return best.member

    def give(self, member: Member) -> bool:
        """Have one wait that is idle and pristine; whether it does, or else whether nothing of it is left.

        Where all that may wait do, a used one has the room of whoever is missed least, such as of one that was made
        while it served.
        """
        given = Idle(member, self._clock())
        with self._lock:
            out = self._without_room(given)
            if out is not given:
                self._idle = [one for one in (*self._idle, given) if one is not out]
        gone = out is None or self._ended(out.member)
        return gone if out is given else True

    def close(self) -> None:
        """End all that wait. Whatever comes later is ended, too."""
        with self._lock:
            self._closed, idle = True, self._idle
            self._idle = []
        for one in idle:
            self._ended(one.member)

    def tend(self) -> bool:
        """Do one thing that is due: end one, or make one; whether there was anything to do."""
        with self._lock:
            ended, wanted = self._over(), self._wanted()
            if ended is not None:
                self._idle.remove(ended)
        if ended is not None:
            self._ended(ended.member)
        elif wanted is not None:
            self._refill(wanted)
        return ended is not None or wanted is not None

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing can become due before somebody asks."""
        with self._lock:
            since = self._clock() - WINDOW_S
            return not self._idle and all(demand.arrivals[-1] <= since for demand in self._demand.values())

    def _over(self) -> Idle | None:
        """One that is too old, or was not needed for long."""
        wanted: dict[Kind, int] = {}
        for need, demand in self._demand.items():
            wanted[need.kind] = wanted.get(need.kind, 0) + self._target(demand)
        for one in sorted(self._idle, key=lambda one: one.since, reverse=True):
            kind = one.member.kind
            wanted[kind] = wanted.get(kind, 0) - 1
            if not self._fits(one.member) or (wanted[kind] < 0 and self._clock() - one.since > SPARE_S):
                return one
        return None

    def _without_room(self, given: Idle) -> Idle | None:
        """Who cannot wait when this one is given. Of equals that is who waits longest."""
        if self._closed or not self._fits(given.member):
            return given
        if len(self._idle) < self._most:
            return None
        if not (self._idle and given.member.served):
            return given
        targets = {need: self._target(demand) for need, demand in self._demand.items()}
        everyone = sorted((*self._idle, given), key=lambda one: one.since)
        longest: dict[tuple[Kind, bool], Idle] = {}
        for one in everyone:
            longest.setdefault((one.member.kind, one.member.served > 0), one)

        def lack(out: Idle) -> int:
            """How many are wanted in all once it is away."""
            met = {need: sum(need.is_met_by(one.member) for one in everyone if one is not out) for need in targets}
            return sum(max(0, wanted - met[need]) for need, wanted in targets.items())

        return min(longest.values(), key=lack)

    def _wanted(self) -> Need | None:
        """Of what too few wait."""
        if self._closed or len(self._idle) >= self._most:
            return None
        for need, demand in self._demand.items():
            waiting = sum(need.is_met_by(one.member) for one in self._idle)
            if waiting < self._target(demand) and self._clock() >= demand.not_before:
                return need
        return None

    def _refill(self, need: Need) -> None:
        demand, began = self._demand[need], self._clock()
        try:
            member = self._make(need.kind)
        except Exception as error:  # whatever an engine answers with
            log.warning("no container can be made to wait: %s", error, exc_info=_is_odd(error))
            demand.not_before = self._clock() + BACK_OFF_S
            return
        demand.made(self._clock() - began)
        self.give(member)

    def _ended(self, member: Member) -> bool:
        """Whether nothing of it is left. What is left is nobody's, and ended with whatever nobody has."""
        try:
            return self._end(member.folder)
        except Exception as error:  # whatever an engine answers with
            log.warning("the container %s cannot be ended: %s", member.name, error, exc_info=_is_odd(error))
            return False

    def _target(self, demand: Demand) -> int:
        return target(demand.arrivals, self._clock(), demand.refill_s, self._most)

    def _fits(self, member: Member) -> bool:
        return member.served < MOST_SERVED and self._now() - member.born < OLDEST_S


class Keeper:
    """The thread that tends a pool. It begins with the first who wakes it."""

    def __init__(self, pool: Pool, pause_s: float = TEND_S) -> None:
        self._pool, self._pause_s = pool, pause_s
        self._woken, self._ends = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def wake(self) -> None:
        """There may be something to do."""
        self._woken.set()
        with self._starting:
            if self._thread is None and not self._ends.is_set() and not self._pool.is_at_rest:
                self._thread = threading.Thread(target=self._keep, name="docker-pool", daemon=True)
                self._thread.start()

    def close(self, limit_s: float | None = None) -> None:
        """End the thread, when it has done what it is doing or after so many seconds, and the pool. What it does
        longer comes to a pool that is closed."""
        with self._starting:
            self._ends.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(limit_s)
        self._pool.close()

    def _keep(self) -> None:
        while not self._ends.is_set():
            self._woken.clear()
            try:
                if self._pool.tend():
                    continue
                wait_s = None if self._pool.is_at_rest else self._pause_s
            except Exception:  # there is no other thread that would go on
                log.exception("the pool of containers could not be looked after")
                wait_s = self._pause_s
            self._woken.wait(wait_s)


def _is_odd(error: Exception) -> bool:
    """Whether nobody foresaw it, and its traceback is wanted."""
    return not isinstance(error, TiltyardError | OSError)
