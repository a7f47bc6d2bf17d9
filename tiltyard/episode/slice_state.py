"""What one slice knows while it runs, and what follows from it: endings, notices, reports."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.decision import Call
from schemas.episode import End
from schemas.journal import TurnRecord, Writer
from schemas.observation import Observation
from schemas.recording import Recording
from schemas.slice import CallRef, Ending, Restored, SliceReport, SliceRequest
from schemas.span import LONGEST_S
from schemas.task import WAIT, Task
from schemas.tool import ToolSpec
from tiltyard.episode.gateway import Place
from tiltyard.episode.known import Known, known_of
from tiltyard.episode.progress import Progress
from tiltyard.episode.rebuilding import NOT_BEHIND, Behind, behind_of
from tiltyard.errors import SandboxLost, SandboxOutOfMemory
from tiltyard.sandbox.tools import is_command

MEMORY_LOSSES = 3
"""Sandboxes of one episode that may be lost for want of memory and made anew."""

NOBODY_IN_TIME = "nobody answered in time"

MAX_NAMED, MAX_NAMED_LENGTH = 5, 200
"""Files that a notice names, and characters of each."""


@dataclass
class SliceState:
    """What one slice knows while it runs. ``behind`` is what a fork's sandbox lacks of its parent's.

    ``recording`` is there where the policy only plays one.
    """

    request: SliceRequest
    writer: Writer
    task: Task
    progress: Progress
    open: TurnRecord | None
    began: float
    outage_s: float = 0
    tools: tuple[ToolSpec, ...] = ()
    added: int = 0
    noticed: bool = False
    unsaved: bool = False
    recording: Recording | None = None
    checkpoint: str = ""
    not_kept: tuple[str, ...] = ()
    behind: Behind = NOT_BEHIND

    @property
    def place(self) -> Place:
        return Place(self.task, self.request.lease, self.request.sandbox)

    @property
    def key(self) -> tuple[str, int]:
        return self.request.spec.episode_id, self.request.lease.generation

    @property
    def turns(self) -> int:
        """Turns that are journalled, the open one included."""
        return len(self.progress) + (self.open is not None)

    @property
    def used_s(self) -> float:
        """Wall time that the episode has used in this slice; an outage of the world is not the policy's."""
        return time.monotonic() - self.began - self.outage_s

    @property
    def wall_left_s(self) -> float:
        return self.request.wall_left_s - self.used_s

    @property
    def command_left_s(self) -> float:
        """What a command may take: the last turn is kept for the policy to be told, and once it is told it may
        use that too."""
        return self.wall_left_s - (0 if self.noticed else _last_turn_s(self.task))


def begun(request: SliceRequest, writer: Writer, task: Task, turns: Sequence[TurnRecord]) -> SliceState:
    """A slice over what the journal holds."""
    now = going_on(request, writer, task, known_of(task, turns))
    if request.sandbox is not None:
        now.behind = behind_of(task, turns, request.spec.kept_turns)
    return now


def going_on(request: SliceRequest, writer: Writer, task: Task, known: Known) -> SliceState:
    """A slice over what is known of the journal."""
    return SliceState(
        request=request,
        writer=writer,
        task=task,
        progress=known.progress,
        open=known.open,
        began=time.monotonic(),
        noticed=request.noticed,
        unsaved=known.unsaved,
        checkpoint=known.checkpoint,
    )


def left_known(now: SliceState) -> Known | None:
    """What the slice leaves to the next one. ``None`` where that must look into the journal itself: for what the
    sandbox of a fork still lacks of its parent's."""
    spec, sandbox = now.request.spec, now.request.sandbox
    if spec.kept_turns and spec.sandbox is not None and (sandbox is None or now.behind.turns):
        return None
    return Known(now.progress, now.open, now.unsaved, now.checkpoint)


def ending_of(now: SliceState) -> Ending | None:
    """How the turns have ended, if they have. Deterministic budgets come first, so equal runs end equally.

    A policy that has not been told of a lost sandbox has ended nothing: what it gave up or submitted is gone.
    """
    exhausted = now.progress.exhausted()
    if (loss := untold(now)) is not None and not (loss.given_up or loss.forked):
        end = End.BUDGET_EXHAUSTED if loss.out_of_memory else End.ENVIRONMENT_ERROR
        return Ending.of(end, "the sandbox was lost, and no turn is left") if exhausted or now.noticed else None
    last = now.progress.last
    if last is not None and last.submit is not None:
        return Ending.of(End.SUBMITTED)
    if last is not None and last.give_up is not None:
        return Ending.of(End.GAVE_UP, last.give_up)
    why = now.progress.stalled()
    if why:
        return Ending.of(End.STALLED, why)
    if exhausted or now.noticed:
        return Ending.of(End.BUDGET_EXHAUSTED, exhausted or "wall time")
    return None


def notice(now: SliceState) -> str:
    """What the policy is told before a last turn. The one of the wall time is remembered: it comes once."""
    notice = now.progress.notice()
    if not notice and now.wall_left_s <= _last_turn_s(now.task):
        now.noticed = True
        notice = f"About {max(1, int(now.wall_left_s))} s are left: this is your last turn."
    loss = untold(now)
    return notice if loss is None else f"{told_of_loss(loss, now.not_kept)} {notice}".strip()


def untold(now: SliceState) -> Restored | None:
    """The new sandbox since which the policy has not been asked, if there is one."""
    restored = now.request.restored
    return restored if restored is not None and now.turns <= restored.turns else None


def told_of_loss(restored: Restored, not_kept: Sequence[str] = ()) -> str:
    """What the policy is told of a sandbox that was lost, or given up. ``not_kept``: files that are missing now."""
    files = "before the first turn" if restored.from_turn is None else f"after turn {restored.from_turn}"
    if not_kept:
        files += f", without those that could not be kept ({_some_of(not_kept)})"
    if restored.forked:
        lacks = _some_of(restored.missing)
        return f"The sandbox has been made anew: its files are as they were {files}. It lacks {lacks}."
    if restored.given_up:
        return (
            f"During the wait the sandbox was put away, and the processes in it have ended. It has been made anew: "
            f"its files are as they were {files}."
        )
    why = " for want of memory" if restored.out_of_memory else ""
    return (
        f"The sandbox was lost{why} with its processes and has been made anew: its files are as they were "
        f"{files}. What a command that was under way did is unknown; it is not run again."
    )


def _some_of(names: Sequence[str]) -> str:
    """So many of them as are easily read, and how many there are besides."""
    some = [name[:MAX_NAMED_LENGTH] for name in names[:MAX_NAMED]]
    return "; ".join([*some, *([f"and {len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else [])])


def lost(now: SliceState, error: SandboxLost) -> SliceReport:
    """A lost sandbox ends the episode, or asks the workflow for a new one, as the task says.

    One that is lost for want of memory is lost by what the policy ran in it: that is no error of the environment.
    """
    plan = now.task.sandbox
    starved = isinstance(error, SandboxOutOfMemory)
    again = now.request.losses >= MEMORY_LOSSES
    if plan is None or plan.on_loss == "environment_error" or (starved and again):
        return ended(now, Ending.of(End.POLICY_ERROR if starved else End.ENVIRONMENT_ERROR, str(error)))
    opened = now.open.turn if now.open is not None else None
    return report_of(now, "lost", open_turn=opened, out_of_memory=starved)


def _last_turn_s(task: Task) -> float:
    """The wall time kept for the one last turn after the notice: a tenth of the budget, at most a turn's time."""
    return min(task.limits.turn_s, task.limits.wall_s / 10)


def is_over(now: SliceState) -> bool:
    limit = now.request.max_turns
    return now.used_s >= now.request.seconds or (limit is not None and now.added >= limit)


def ended(now: SliceState, ending: Ending) -> SliceReport:
    return report_of(now, "end", ending=ending)


def report_of(now: SliceState, reason: str, waiting_for: CallRef | None = None, **what: object) -> SliceReport:
    told = {
        "turns": now.turns,
        "reason": reason,
        "noticed": now.noticed,
        "used_s": round(now.used_s, 3),
        "waiting_for": waiting_for,
        "may_give_up": may_give_up(now, waiting_for),
    }
    return SliceReport.model_validate({**told, **what})


def may_give_up(now: SliceState, waiting_for: CallRef | None) -> bool:
    """Whether the sandbox may be given up in a wait: as the task says, and nothing that the open turn has done must
    be known to it alone."""
    plan = now.task.sandbox
    sent = now.open.decision.calls[: waiting_for.call] if now.open and waiting_for else ()
    return (
        plan is not None
        and plan.while_waiting == "give_up"
        and not any(is_command(now.task, call.tool) for call in sent)
    )


def answer_to(now: SliceState, asked: CallRef) -> Observation | None:
    """What the question was answered, or ``None`` while a person must still answer.

    A slice that is tried again is told the same answer, and may be at a later question by then. A recording has the
    answers of its people, at once.
    """
    known = now.task.answers if now.recording is None else now.recording.answers
    if known is not None:
        answer = known[now.progress.asked] if now.progress.asked < len(known) else None
        nobody = "nobody answered" if now.task.answers is not None else NOBODY_IN_TIME
        return _answered(answer, nobody)
    if not now.request.answered or now.request.waited != asked:
        return None
    return _answered(now.request.answer, NOBODY_IN_TIME)


def _answered(answer: str | None, nobody: str) -> Observation:
    """What is shown of an answer; ``nobody`` where there is none."""
    if answer is None:
        return Observation(tool="ask", status="timeout", message=nobody)
    return Observation(tool="ask", status="ok", content=answer)


def real_wait_s(now: SliceState, ref: CallRef, call: Call) -> int:
    """Seconds for which the workflow must sleep before this call, 0 for none.

    Only a task that waits in real time sleeps; arguments that the world will refuse do not. Nor does a recording:
    what people or other systems did meanwhile is in it, or in the world.
    """
    if now.recording is not None or now.task.waiting != "real" or call.tool != WAIT or now.request.waited == ref:
        return 0
    seconds = call.arguments.get("seconds")
    acceptable = isinstance(seconds, int) and not isinstance(seconds, bool) and 0 < seconds <= LONGEST_S
    return seconds if acceptable and isinstance(seconds, int) else 0
