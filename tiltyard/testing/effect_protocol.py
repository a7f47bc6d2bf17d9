"""The effect protocol (design §5) as a state space: slice attempts, a network, a workflow that ends the episode.

World and journal are the real code. An attempt does what a slice does: takes the token, reads the journal,
journals its decision, sends the call until there is a reply, journals the observation. Attempts overlap, for a
worker that was given up may still run, and each has a mind of its own: asked again, it decides otherwise.

The network is the set of requests that were ever sent. Each may be executed at any time and any number of times,
one transaction at a time, and its reply may arrive or not. So loss, delay, repeats and arrivals after the seal
and after the next lease are all in it, without a bound; a delayed reply is one that its attempt is slow to use.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from schemas.base import JsonObject
from schemas.decision import Call, Decision
from schemas.journal import Writer
from schemas.observation import Observation
from schemas.world import DeliveryReply, DeliveryRequest, Lease, TemplateRef
from tiltyard.errors import DeliveryConflict, LateWrite
from tiltyard.testing.engine_bench import lease_request
from tiltyard.testing.memory_journal import MemoryJournal
from tiltyard.testing.memory_worlds import MemoryWorlds
from tiltyard.testing.protocol_parts import JournalStates, WorldStates
from tiltyard.worlds.deliveries import Sent
from tiltyard.worlds.engine import Engine
from tiltyard.worlds.rows import Partition

FIRST, SECOND = "ep-1", "ep-2"
NOBODY = -1


class Attempt(NamedTuple):
    """One attempt: ``phase`` is what it has done last; ``mind`` is whose decision it carries out (0: none)."""

    phase: str = "new"
    turn: int = 0
    mind: int = 0
    told: str = ""


class Request(NamedTuple):
    """A request that was sent; ``attempt`` is who waits for its reply, or ``NOBODY`` any more."""

    attempt: int
    turn: int
    mind: int


class State(NamedTuple):
    """Everything. ``ended`` counts the workflow's steps; ``sealed`` are the deliveries recorded at the seal;
    ``flaw`` is what somebody found wrong."""

    world: int
    journal: int
    attempts: tuple[Attempt, ...]
    network: frozenset[Request] = frozenset()
    ended: int = 0
    sealed: frozenset[str] | None = None
    flaw: str = ""


@dataclass(frozen=True)
class Rules:
    """How large the space is, and which habits of the harness are kept."""

    attempts: int = 2
    turns: int = 2
    journal_first: bool = True
    own_token: bool = True
    reconcile: bool = True
    ends: int = 8
    """How many of the workflow's last steps are taken."""


class EffectProtocol:
    """The moves from each state. What must hold is in ``tiltyard.testing.effect_promises``."""

    def __init__(self, engine: Engine, store: MemoryWorlds, rules: Rules) -> None:
        self.rules = rules
        self.lease = engine.lease(lease_request(FIRST, template=TemplateRef(name="jobs")))
        self.fence = Partition(self.lease.namespace, self.lease.generation)
        self.worlds, self.journals = WorldStates(engine, store), JournalStates(MemoryJournal())
        self.start = State(self.worlds.current(), 0, (Attempt(),) * rules.attempts)
        self._ends = self._ends_of_the_episode()[: rules.ends]

    def moves(self, state: State) -> Iterator[tuple[str, State]]:
        if state.flaw:
            return
        for index, attempt in enumerate(state.attempts):
            yield from self._attempt(state, index, attempt)
        for request in sorted(state.network):
            yield from self._execute(state, request)
        if state.ended < len(self._ends):
            name, end = self._ends[state.ended]
            yield name, end(state, name)

    def _attempt(self, state: State, index: int, attempt: Attempt) -> Iterator[tuple[str, State]]:
        after = {
            "taken": self._read,
            "read": self._decide,
            "decided": self._send,
            "answered": self._observe,
        }.get(attempt.phase)
        if after is not None:
            yield f"{index} goes on from {attempt.phase}", after(state, index, attempt)
        if attempt.phase == "new":
            if index == 0 or state.attempts[index - 1].phase != "new":
                yield f"{index} starts", self._journalled(state, index, attempt, "take", Attempt("taken"))
        elif attempt.phase != "over":
            yield f"{index} crashes", _with(state, index, Attempt("over"))
        if attempt.phase == "sent" and not self.rules.reconcile:
            gave_up = attempt._replace(phase="answered", told="timeout")
            yield f"{index} takes no reply for a timeout", _with(state, index, gave_up)

    def _read(self, state: State, index: int, attempt: Attempt) -> State:
        turns = self.journals.turns(state.journal, FIRST, self.lease.generation)
        if turns and turns[-1].observations is None:
            memo = turns[-1].decision.memo
            assert isinstance(memo, int)
            return _with(state, index, Attempt("decided", len(turns) - 1, memo))
        return _with(state, index, self._next_turn(len(turns)))

    def _next_turn(self, turn: int) -> Attempt:
        return Attempt("read", turn) if turn < self.rules.turns else Attempt("over")

    def _decide(self, state: State, index: int, attempt: Attempt) -> State:
        decided = attempt._replace(phase="decided", mind=index + 1)
        if not self.rules.journal_first:
            return _with(state, index, decided)
        return self._journalled(state, index, decided, "decide", decided)

    def _send(self, state: State, index: int, attempt: Attempt) -> State:
        request = Request(index, attempt.turn, attempt.mind)
        return _with(state, index, attempt._replace(phase="sent"), state.network | {request})

    def _observe(self, state: State, index: int, attempt: Attempt) -> State:
        if not self.rules.journal_first:
            state = self._journalled(state, index, attempt, "decide", attempt)
        if state.attempts[index].phase == "over":
            return state
        return self._journalled(state, index, attempt, "observe", self._next_turn(attempt.turn + 1))

    def _journalled(self, state: State, index: int, attempt: Attempt, operation: str, following: Attempt) -> State:
        """After a write to the journal; an attempt that was replaced, or came after the seal, is over."""
        writer = Writer(run_id="run", slice_no=0, attempt_id=str(index if self.rules.own_token else 0))
        key = FIRST, self.lease.generation, writer
        tool, arguments = call_of(attempt.turn, attempt.mind)
        decision = Decision(calls=(Call(tool=tool, arguments=arguments),), memo=attempt.mind)
        observed = Observation(tool=tool, status="timeout" if attempt.told == "timeout" else "ok")
        writes: dict[str, Callable[..., Any]] = {
            "take": lambda journal: journal.take(*key),
            "decide": lambda journal: journal.decide(*key, attempt.turn, decision),
            "observe": lambda journal: journal.observe(*key, attempt.turn, (observed,), (), 0),
        }
        name = f"{operation} {writer.attempt_id} {attempt}"
        journal, error = self.journals.after(state.journal, name, writes[operation])
        return _with(state._replace(journal=journal), index, Attempt("over") if error else following)

    def _execute(self, state: State, request: Request) -> Iterator[tuple[str, State]]:
        """One transaction of a request. When it answers, the reply is lost, or reaches whoever waits for it."""
        sent = _sent(self.lease, f"{FIRST}/{request.turn}", *call_of(request.turn, request.mind))
        name = f"call {request.turn} {request.mind}"
        world, result = self.worlds.after(state.world, name, lambda engine: engine.deliveries.step(sent))
        state = state._replace(world=world)
        yield f"the world executes {request}", state
        if result is not None and request.attempt != NOBODY:
            yield f"the world answers {request}", self._receive(state, request, _answer(request.turn, result))

    def _receive(self, state: State, request: Request, told: str) -> State:
        attempt = state.attempts[request.attempt]
        if told == "late":
            return _with(state, request.attempt, Attempt("over"))
        if told != str(attempt.mind):
            return state._replace(flaw=f"the harness was told: {told}")
        return _with(state, request.attempt, attempt._replace(phase="answered", told=told))

    def _ends_of_the_episode(self) -> list[tuple[str, Callable[[State, str], State]]]:
        """The end of the first episode, a second one, and repeats of the first one's end in the midst of it."""
        return [
            ("the journal is closed", self._close_journal),
            ("sealed", self._engine(lambda engine: engine.seal(*self.fence))),
            ("drained", self._engine(lambda engine: engine.drain(*self.fence))),
            ("recycled", self._engine(lambda engine: engine.recycle(*self.fence))),
            ("leased again", self._engine(self._lease_again)),
            ("the second writes", self._engine(lambda engine: _second_writes(engine, 0))),
            ("ended once more", self._engine(self._end_once_more)),
            ("the second writes again", self._engine(lambda engine: _second_writes(engine, 1))),
        ]

    def _close_journal(self, state: State, name: str) -> State:
        journal, _ = self.journals.after(
            state.journal, name, lambda journal: journal.close(FIRST, self.lease.generation)
        )
        return state._replace(journal=journal, ended=state.ended + 1)

    def _engine(self, run: Callable[[Engine], Any]) -> Callable[[State, str], State]:
        def end(state: State, name: str) -> State:
            world, result = self.worlds.after(state.world, name, run)
            flaw = f"{name}: {result!r}" if isinstance(result, Exception) or result is False else ""
            sealed = state.sealed
            if name == "sealed":
                sealed = frozenset(self.worlds.deliveries(world, self.fence))
            return state._replace(world=world, ended=state.ended + 1, sealed=sealed, flaw=flaw)

        return end

    def _lease_again(self, engine: Engine) -> bool:
        """The second episode has the first one's namespace, which is as good as new."""
        lease = engine.lease(lease_request(SECOND))
        return (lease.namespace, lease.generation > self.lease.generation) == (self.lease.namespace, True)

    def _end_once_more(self, engine: Engine) -> None:
        engine.seal(*self.fence)
        engine.drain(*self.fence)
        engine.recycle(*self.fence)
        engine.quarantine(*self.fence, "repeated")


def call_of(turn: int, mind: int) -> tuple[str, JsonObject]:
    """What an attempt decides in a turn; each mind something else."""
    if turn % 2 == 0:
        return "add", {"name": "apples", "amount": mind}
    return "wait", {"seconds": 60 * mind}


def _answer(turn: int, result: DeliveryReply | Exception) -> str:
    """Whose request a reply answers, or what the world said instead."""
    if isinstance(result, LateWrite):
        return "late"
    if isinstance(result, DeliveryConflict):
        return "conflict"
    if isinstance(result, Exception):
        return repr(result)
    content = result.shown.content
    assert isinstance(content, dict)
    if turn % 2 == 1:
        waited = content["waited_s"]
        return str(waited // 60 if isinstance(waited, int) else waited)
    amounts = content["amounts"]
    return str(amounts[-1]) if isinstance(amounts, list) else ""


def _second_writes(engine: Engine, turn: int) -> DeliveryReply | None:
    """Raises when the second episode's write is not admitted."""
    lease = engine.lease(lease_request(SECOND))
    return engine.deliveries.step(_sent(lease, f"{SECOND}/{turn}", *call_of(0, 1)))


def _sent(lease: Lease, delivery_id: str, tool: str, arguments: JsonObject) -> Sent:
    request = DeliveryRequest(
        namespace=lease.namespace,
        generation=lease.generation,
        delivery_id=delivery_id,
        tool=tool,
        arguments=arguments,
    )
    return Sent.of(request)


def _with(state: State, index: int, attempt: Attempt, network: frozenset[Request] | None = None) -> State:
    """The state with another attempt. Requests whose reply nobody waits for any more are all one."""
    attempts = (*state.attempts[:index], attempt, *state.attempts[index + 1 :])
    sent = state.network if network is None else network
    addressed = (one if _awaited(attempts, one) else one._replace(attempt=NOBODY) for one in sent)
    return state._replace(attempts=attempts, network=frozenset(addressed))


def _awaited(attempts: tuple[Attempt, ...], request: Request) -> bool:
    waiting = attempts[request.attempt]
    return request.attempt != NOBODY and (waiting.phase, waiting.turn) == ("sent", request.turn)
