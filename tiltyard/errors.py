"""Every error that Tiltyard raises on purpose.

TiltyardError
├── BadInput              the caller's: names the field and the way to mend it (exit code 2)
│   ├── BadTask           a task file
│   └── BadPolicy         a policy's name, command or source
├── EnvironmentFailed     the ground's: nothing is said about the policy (exit code 3)
│   ├── WorldUnreachable  no reply until the deadline; the same delivery may be sent again
│   ├── ObjectsUnreachable  the object store is away; the same may be tried again
│   ├── NotSettled        the world refused the harness's own wait before the seal
│   ├── NotPristine       a namespace's digest differs from a pristine one: quarantined
│   ├── SandboxUnreachable  no reply of the sandbox's host; the same request may be sent again
│   ├── SandboxLost       the sandbox is gone, and what was in flight in it is unknown
│   │   └── SandboxOutOfMemory  because all the memory that it may have was used: by those in it
│   ├── SandboxUnavailable  no sandbox of this kind can be made here
│   └── StackFailed       the embedded stack did not come up
├── Fenced                the caller has been sealed or replaced: stop
│   ├── LateWrite         the world refused an old generation
│   └── JournalClosed     the journal was sealed
├── Replaced              another attempt has taken the writer token: this one gives up
├── DeliveryConflict      one delivery id with two requests: a bug of the harness
├── Refused               a tool says no: the recorded outcome of the delivery, shown to the agent
├── PolicyFailed          the policy raised, hung, flooded, died or answered nonsense
├── InputMissing          what is kept of an episode is not there any more, or is damaged (exit code 2)
├── RecordingEnded        a recording has no further decision: the episode ends as it says
└── GraderFailed          a grader raised: the outcome's validity is ``grader``
"""


class TiltyardError(Exception):
    """The root. The first argument is a sentence for a person."""


class BadInput(TiltyardError):
    """Bad input: ``field`` is what is wrong, ``fix`` how to mend it."""

    def __init__(self, message: str, *, field: str = "", fix: str = "") -> None:
        super().__init__(message)
        self.message, self.field, self.fix = message, field, fix

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        return f"{where}{self.message}" + (f" ({self.fix})" if self.fix else "")


class BadTask(BadInput):
    """A task file that cannot be used."""


class BadPolicy(BadInput):
    """A policy that cannot be started."""


class EnvironmentFailed(TiltyardError):
    """The environment failed; the policy is not to blame. ``fix`` is what a person can do, where that is known."""

    def __init__(self, message: str = "", *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


class WorldUnreachable(EnvironmentFailed):
    """The world did not answer. The outcome of the call is not known."""


class ObjectsUnreachable(EnvironmentFailed):
    """The object store did not answer. Nothing that was being written may be taken as stored."""


class NotPristine(EnvironmentFailed):
    """A namespace or template is not as it was made; it has been quarantined."""


class SandboxUnreachable(EnvironmentFailed):
    """The host of the sandbox did not answer. The outcome of the request is not known."""


class SandboxLost(EnvironmentFailed):
    """The sandbox, or this incarnation of it, is gone with its processes."""


class SandboxOutOfMemory(SandboxLost):
    """The sandbox is gone after the kernel ended processes in it for want of memory: what it may have, those in it
    had used. So unlike any other loss it says something about whoever ran commands there."""


class SandboxUnavailable(EnvironmentFailed):
    """The machine cannot make such a sandbox; says what to do instead."""


class NotRebuilt(EnvironmentFailed):
    """A command that was run again for a fork shows something else: the files are not those of its parent."""


class NotSettled(EnvironmentFailed):
    """The wait before the seal was refused, which no task and no agent can bring about."""


class StackFailed(EnvironmentFailed):
    """The embedded stack did not come up or died."""


class Fenced(TiltyardError):
    """The caller's generation or token has ended."""


class LateWrite(Fenced):
    """The namespace has been sealed or leased anew; the write was refused and logged as late."""


class JournalClosed(Fenced):
    """The journal has been sealed."""


class Replaced(TiltyardError):
    """A later attempt has taken the writer token."""


class DeliveryConflict(TiltyardError):
    """The same delivery id came with another request."""


class Refused(TiltyardError):
    """A tool refuses. ``code`` is short and stable, the message tells the agent why."""

    def __init__(self, message: str, *, code: str = "refused") -> None:
        super().__init__(message)
        self.message, self.code = message, code


class PolicyFailed(TiltyardError):
    """The policy failed; the episode ends ``policy_error``."""


class InputMissing(TiltyardError):
    """An episode cannot be opened or made again: ``what`` is kept of it is not there any more, or is damaged."""

    fix = "put the object back from a copy, or run the task again"

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.what, self.why = what, why


class RecordingEnded(TiltyardError):
    """A recording is played to its end, and nothing in it has ended the episode; its ``ending`` does."""


class GraderFailed(TiltyardError):
    """A grader failed; the facts are kept and can be graded again."""
