"""Contracts and process rules that a task is graded by."""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from schemas.base import JsonObject, Model
from schemas.sandbox import WorkPath

ChangeKind = Literal["created", "updated", "deleted"]

MAX_COUNT = 1_000_000
"""The largest number of rows, effects, jobs or calls that a contract or a rule may name, and the largest weight."""

OPERATION_OF = "operation_of"
"""Key of a stand-in value: ``{operation_of: TOOL}`` equals the operation id of any call of TOOL that the agent
made. It may stand for a whole value of ``ExpectedChange.fields`` and of ``AnswerContract.accept``, since the agent
chooses its operation ids and no task file can foresee them."""


class ExpectedChange(Model):
    """A row change that must (or, as a side effect, may) happen.

    ``key`` of ``None`` matches any row of the collection. ``after`` is the complete end state; ``fields`` are
    dotted paths into it with their values. Of an updated row only the ``fields`` and ``may_change`` paths may
    differ. ``count`` rows must match, 0 to ``count`` for a side effect.
    """

    collection: str
    key: str | None = None
    change: ChangeKind
    fields: JsonObject = {}
    after: JsonValue = None
    may_change: tuple[str, ...] = ()
    count: int = Field(default=1, ge=1, le=MAX_COUNT)


class Outcome(Model):
    """One acceptable end of a task."""

    name: str = "done"
    changes: tuple[ExpectedChange, ...] = ()


class _ContractBase(Model):
    name: str = ""
    idle_passes: bool = False
    """Whether doing nothing at all passes this contract."""


class StateContract(_ContractBase):
    """The net changes equal one of ``outcomes`` and the declared side effects; the rest is collateral damage."""

    kind: Literal["state"] = "state"
    outcomes: tuple[Outcome, ...] = Field(min_length=1)
    side_effects: tuple[ExpectedChange, ...] = ()


class ReceiptContract(_ContractBase):
    """``tool`` took effect between ``at_least`` and ``at_most`` times, each effect with its own receipt if
    ``operation_id_required``."""

    kind: Literal["receipts"] = "receipts"
    tool: str
    at_least: int = Field(default=0, ge=0, le=MAX_COUNT)
    at_most: int = Field(default=1, ge=0, le=MAX_COUNT)
    operation_id_required: bool = False


class AuthorisationContract(_ContractBase):
    """Every row created in ``collection`` was covered, at that moment, by a row of ``requires``.

    The covering row's key stands in the created row's field ``key_field``. Its fields must equal ``where``, and
    be equal to the created row's fields in ``same`` (covering field → created field).
    """

    kind: Literal["authorisation"] = "authorisation"
    collection: str
    requires: str
    key_field: str
    where: JsonObject = {}
    same: dict[str, str] = {}


class AnswerContract(_ContractBase):
    """The submitted answer equals one of ``accept`` in the fields that each names, and says every fact.

    ``evidence`` maps an answer's field to tools: its value must have been shown by a successful call of one of
    them; a field that the answer does not have needs none. ``looked_up`` are tools: at least one call of any of
    them must have succeeded. ``facts`` match whole words or numbers, case-insensitively, separators and ``$``
    ignored, 481.5 = 481.50.
    """

    kind: Literal["answer"] = "answer"
    accept: tuple[JsonObject, ...] = ({},)
    evidence: dict[str, tuple[str, ...]] = {}
    looked_up: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()


class BudgetContract(_ContractBase):
    """The episode did not run out of a budget."""

    kind: Literal["budget"] = "budget"
    idle_passes: bool = True


class DrainContract(_ContractBase):
    """At most ``jobs_left`` deferred jobs were still pending at the seal."""

    kind: Literal["drain"] = "drain"
    idle_passes: bool = True
    jobs_left: int = Field(default=0, ge=0, le=MAX_COUNT)


class ProcessContract(_ContractBase):
    """Process rules that are conditions of completion: each holds, whether it was triggered or not."""

    kind: Literal["process"] = "process"
    rules: tuple["ProcessRule", ...] = Field(min_length=1)


class TestsContract(_ContractBase):
    """Visible and hidden tests pass in a fresh sandbox that holds the task's own files, and of the agent's only
    those that ``sources`` match.

    ``sources`` are globs over paths below the working directory, ``visible`` and ``hidden`` folders of unittest
    files; ``hidden_files`` are laid over the task's files for the hidden run. ``protected`` globs name files whose
    change is tampering, beside hooks that Python or a test runner would load. ``timeout_s`` is for each run.
    """

    kind: Literal["tests"] = "tests"
    sources: tuple[str, ...] = Field(min_length=1)
    visible: WorkPath = "tests"
    hidden: WorkPath = "hidden_tests"
    hidden_files: dict[WorkPath, str] = Field(min_length=1)
    protected: tuple[str, ...] = ()
    timeout_s: float = Field(default=60, gt=0, le=480)


class CallMatch(Model):
    """Calls of ``tool`` whose arguments contain ``arguments`` and whose shown status is one of ``status``.

    ``like`` are globs for arguments that are texts: ``{command: "*python*"}``.
    """

    tool: str
    arguments: JsonObject = {}
    like: dict[str, str] = {}
    status: tuple[Literal["ok", "error", "timeout"], ...] = ()


class ProcessRule(Model):
    """One rule on how the work was done. A rule counts in P only when it was triggered.

    * ``require``: ``call`` happened (triggered as soon as anything was done).
    * ``forbid``: ``call`` did not happen (triggered when it did, or when ``if_done`` did).
    * ``order``: before each ``call``, ``before`` had happened (triggered by ``call``).
    * ``at_most``: ``call`` happened at most ``n`` times (triggered by ``call``).
    * ``reconcile_before_retry``: after a timeout of ``call``, a receipt was asked for its operation id and the
      answer was one (found, or ``not_found``), or it was sent again under the same operation id, before any
      other effect of that tool (triggered by a timeout).
    * ``strategy_change_after``: after ``n`` errors of ``call`` in a row, the next call differs in tool or
      arguments (triggered by n errors).
    * ``claim_needs_evidence``: values of the submitted answer's ``fields`` were shown by an earlier successful
      call, of ``call`` where it is given (triggered by a submitted answer that has one of the fields).
    """

    rule: Literal[
        "require",
        "forbid",
        "order",
        "at_most",
        "reconcile_before_retry",
        "strategy_change_after",
        "claim_needs_evidence",
    ]
    call: CallMatch | None = None
    before: CallMatch | None = None
    if_done: CallMatch | None = None
    fields: tuple[str, ...] = ()
    n: int = Field(default=1, ge=1, le=MAX_COUNT)
    weight: float = Field(default=1.0, gt=0, le=MAX_COUNT)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.rule == "claim_needs_evidence":
            if not self.fields:
                raise ValueError("fields: name the answer's fields that need evidence")
        elif self.call is None:
            raise ValueError(f"call: the rule {self.rule} needs the calls that it is about")
        if self.rule == "order" and self.before is None:
            raise ValueError("before: the rule order needs the calls that must come first")
        return self


Contract = Annotated[
    StateContract
    | ReceiptContract
    | AuthorisationContract
    | AnswerContract
    | BudgetContract
    | DrainContract
    | ProcessContract
    | TestsContract,
    Field(discriminator="kind"),
]

ProcessContract.model_rebuild()
