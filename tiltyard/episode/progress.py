"""What the journal says of an episode's progress: the view, budgets, stalls. A function of the turns alone."""

from collections.abc import Sequence
from functools import cached_property

from schemas.base import JsonValue, canonical
from schemas.decision import Call, Decision
from schemas.journal import TurnRecord
from schemas.task import Task
from schemas.tool import ToolSpec
from schemas.view import Budgets, Turn, View
from tiltyard.episode.gateway import OVER_BUDGET, Clocks, after_command
from tiltyard.episode.history import history_of
from tiltyard.graders.counts import calls_made
from tiltyard.sandbox.tools import is_command

STALL_CALLS, STALL_COMMANDS = 5, 30
"""Equal calls, one after the other, that make a stall: of a tool of the world, and of one of the sandbox. What they
were answered does not count, so that equal decisions end equally whatever a command prints (I7)."""


class Progress:
    """What the finished turns of an episode add up to. It grows turn by turn, so a long episode stays fast."""

    def __init__(self, task: Task, turns: Sequence[TurnRecord] = ()) -> None:
        self._task = task
        self._history = history_of(task)
        self._turns = 0
        self._calls = self._tokens = self._asked = 0
        self._last_was_extra = False
        self._last_call: Call | None = None
        self._equal_calls = 0
        self._memo: JsonValue = None
        self.clocks = Clocks()
        for turn in turns:
            self.add(turn)

    def __len__(self) -> int:
        return self._turns

    def add(self, turn: TurnRecord) -> None:
        """A turn has been finished: its calls were answered."""
        decision = turn.decision
        self._last_was_extra = bool(_used_up(self.left()))
        shown = Turn.model_construct(decision=decision.without_memo(), observations=turn.observations or ())
        self._turns += 1
        self._calls += calls_made((turn,), self._task.limits.tool_calls - self._calls)
        self._tokens += decision.tokens
        self._asked += decision.ask is not None
        for call in decision.calls:
            self._equal_calls = self._equal_calls + 1 if call == self._last_call else 1
            self._last_call = call
        self._memo = decision.memo
        elsewhere = self.clocks
        for call, shown_of_it in zip(decision.calls, turn.observations or (), strict=False):
            if is_command(self._task, call.tool) and shown_of_it.code != OVER_BUDGET:
                elsewhere = after_command(elsewhere, call.tool)
        self.clocks = Clocks(turn.now_s, elsewhere.elsewhere_s)
        self._history.add(shown, self.left())

    @property
    def now_s(self) -> int:
        """Virtual time after the last turn."""
        return self.clocks.now_s

    @property
    def last(self) -> Decision | None:
        return self._history.turns[-1].decision if self._history.turns else None

    @property
    def asked(self) -> int:
        """Questions asked so far."""
        return self._asked

    def view(self, tools: tuple[ToolSpec, ...], seed: int, notice: str) -> View:
        """What the policy decides the next turn by."""
        return View.model_construct(
            instruction=self._task.instruction,
            tools=tools,
            summary=self._history.summary,
            transcript=tuple(self._history.turns),
            budgets=self.left(),
            seed=seed,
            turn=len(self),
            memo=self._memo,
            notice=notice,
        )

    def held_bytes(self) -> int:
        """What it holds in memory, as JSON: also the task, though others may have the same one."""
        return self._task_bytes + self._history.held_bytes() + len(canonical([self._memo, self._last_call]))

    @cached_property
    def _task_bytes(self) -> int:
        return len(canonical(self._task))

    def left(self) -> Budgets:
        """Budgets that are left, never below zero."""
        limits = self._task.limits
        return Budgets(
            turns=max(0, limits.turns - len(self)),
            tool_calls=limits.tool_calls - self._calls,
            tokens=None if limits.tokens is None else max(0, limits.tokens - self._tokens),
            virtual_s=None if limits.virtual_s is None else max(0, limits.virtual_s - self.now_s),
        )

    def exhausted(self) -> str:
        """The budget that ends the episode before the next turn, or nothing.

        Turns end at their number. Any other budget that is used up grants one last turn, with a notice.
        """
        left = self.left()
        if left.turns == 0:
            return "turns"
        return _used_up(left) if self._last_was_extra else ""

    def notice(self) -> str:
        """What the policy is told before its last turn, or nothing."""
        left = self.left()
        spent = _used_up(left)
        if spent:
            return f"The budget of {spent} is used up: this is your last turn. Submit what you have, or give up."
        return "This is your last turn: submit what you have, or give up." if left.turns == 1 else ""

    def stalled(self) -> str:
        """Why the episode is stalled, or nothing. Polling tools that the task names are exempt."""
        call = self._last_call
        if call is None or call.tool in self._task.polling_tools:
            return ""
        limit = STALL_COMMANDS if is_command(self._task, call.tool) else STALL_CALLS
        return f"{limit} calls of {call.tool} with unchanged arguments" if self._equal_calls >= limit else ""


def _used_up(left: Budgets) -> str:
    """The name of a budget with nothing left, or nothing."""
    return next((name for name in ("turns", "tool_calls", "tokens", "virtual_s") if getattr(left, name) == 0), "")
