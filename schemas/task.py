"""A task: instruction, world and template, tools, limits, faults, contracts and reference solutions."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from schemas.base import JsonObject, Model, canonical, digest_of
from schemas.contract import AuthorisationContract, Contract, ProcessRule, TestsContract
from schemas.fault import Fault
from schemas.sandbox import Exposes, SandboxPlan
from schemas.span import LONGEST_S, RealS, VirtualS
from schemas.world import TemplateRef

MAX_TOOL_CALLS = 1_000_000
"""Tool calls that a task may allow one episode."""

MAX_TOKENS = 10**12

WAIT = "wait"
"""The engine's tool that advances a world's clock; every world has it."""


class Limits(Model):
    """Budgets of one episode. Seconds named ``virtual_s`` are the world's, all others are real."""

    turns: int = Field(default=40, ge=1, le=100_000)
    tool_calls: int = Field(default=200, ge=1, le=MAX_TOOL_CALLS)
    tokens: int | None = Field(default=None, ge=1, le=MAX_TOKENS)
    virtual_s: int | None = Field(default=None, ge=1, le=LONGEST_S)
    wall_s: RealS = 3600
    turn_s: RealS = Field(default=120, description="a policy's time for one decision")
    answer_s: RealS = Field(default=86_400, description="how long a question waits for an answer")
    observation_bytes: int = Field(default=65_536, ge=256, le=2**24)


TOKEN_BYTES = 4
"""UTF-8 bytes of canonical JSON that count as one token of a view: a measure that needs no model's tokenizer."""

GOAL_SHARE = 6
"""The instruction, which each summary repeats, may be this part of a view's limit."""


class ViewLimit(Model):
    """When history is summarised for the policy: its ``summary`` and ``transcript`` take ``tokens`` at most.

    ``rule`` says how (docs/long-episodes.md). Its number is its version: a rule never changes, another is added.
    """

    tokens: int = Field(ge=2_000, le=10_000_000)
    rule: Literal["recent-1"] = "recent-1"

    @property
    def bytes(self) -> int:
        return self.tokens * TOKEN_BYTES


class Settle(Model):
    """Wait for background work before the seal, up to ``limit_s`` virtual seconds; 0 is not at all."""

    limit_s: VirtualS = 0


class Step(Model):
    """One turn of a reference solution.

    Strings in ``arguments`` and ``submit`` may hold run-time expressions over the contents that earlier steps
    were shown, by ``name``: ``${steps.order.replacement_id}`` (see ``tiltyard.references``).
    """

    name: str = ""
    thought: str = ""
    tool: str | None = None
    arguments: JsonObject = {}
    submit: JsonObject | None = None
    give_up: str | None = None
    fails: bool = Field(default=False, description="the public solution's step is known to be refused")

    @model_validator(mode="after")
    def _one_action(self) -> Self:
        if [self.tool, self.submit, self.give_up].count(None) != 2:
            raise ValueError("a step has exactly one of tool, submit, give_up")
        return self


class Reference(Model):
    """A known good solution; ``name`` tells several apart.

    ``tokens`` is what a good run of a model spends on it; 0 leaves tokens out of the efficiency. ``virtual_s`` is
    the virtual time that it takes; 0 has it computed from the steps, and leaves it out of the efficiency where a
    wait is known at run time only.
    """

    name: str = "reference"
    tokens: int = Field(default=0, ge=0, le=MAX_TOKENS)
    virtual_s: VirtualS = 0
    steps: tuple[Step, ...] = Field(min_length=1)


class Weights(Model):
    """Weights of completion, process and efficiency; they sum to 1, and process stays within 0.20 to 0.30."""

    completion: float = Field(default=0.55, ge=0, le=1)
    process: float = Field(default=0.25, ge=0.20, le=0.30)
    efficiency: float = Field(default=0.20, ge=0, le=1)

    @model_validator(mode="after")
    def _sum(self) -> Self:
        if abs(self.completion + self.process + self.efficiency - 1) > 1e-9:
            raise ValueError("completion + process + efficiency must be 1")
        return self


def _exposing(exposes: Exposes, tool: str) -> Iterator[str]:
    return (name for name, tools in exposes.items() if tool in tools)


def _is_none(value: object) -> bool:
    return value is None


class Task(Model):
    """One task. ``instruction`` is final text; the policy never sees anything of a task but it and its tools.

    ``waiting`` says what ``wait`` means: an advance of the world's clock, or also a durable timer in real time.
    ``view`` limits what of its history a policy is shown; without it that is all of it.
    ``sandbox`` is what its commands need; without it there are none. ``polling_tools`` may be called again with
    equal arguments without counting as a stall. ``answers`` are what a simulated person replies to the policy's
    questions, in order; without them a human must.
    """

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*(/[a-z0-9][a-z0-9._-]*){2}$")
    world: str
    instruction: str = Field(min_length=1)
    template: TemplateRef = TemplateRef()
    tools: tuple[str, ...] = ()
    limits: Limits = Limits()
    view: ViewLimit | None = Field(default=None, exclude_if=_is_none)  # tasks without it keep their digests
    faults: tuple[Fault, ...] = ()
    settle: Settle = Settle()
    waiting: Literal["simulated", "real"] = "simulated"
    polling_tools: tuple[str, ...] = ()
    answers: tuple[str, ...] | None = None
    contracts: Annotated[tuple[Contract, ...], Field(min_length=1)]
    process: tuple[ProcessRule, ...] = ()
    references: Annotated[tuple[Reference, ...], Field(min_length=1)]
    weights: Weights = Weights()
    sandbox: SandboxPlan | None = None
    metadata: dict[str, JsonValue] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if all(contract.idle_passes for contract in self.contracts):
            raise ValueError("contracts: doing nothing passes all of them; add one that it fails")
        if self.settle.limit_s and self.tools and WAIT not in self.tools:
            raise ValueError("settle: waits with the tool wait; add it to tools, or set limit_s to 0")
        if self.settle.limit_s and any(fault.tool == WAIT for fault in self.faults):
            raise ValueError("faults: a fault on wait would also hit the settle; set settle.limit_s to 0")
        if self.sandbox is not None and (name := next(_exposing(self.sandbox.exposes, WAIT), None)):
            raise ValueError(f"sandbox.exposes.{name}: {WAIT} is the agent's alone; take it out")
        if self.sandbox is None and self.hides_tests:
            raise ValueError("sandbox: a tests contract needs one; add sandbox.files")
        goal = len(canonical(self.instruction))
        if self.view is not None and goal * GOAL_SHARE > self.view.bytes:
            least = -(-goal * GOAL_SHARE // TOKEN_BYTES)
            raise ValueError(f"view.tokens: too few for this instruction, which each summary repeats; give {least}")
        if self.id.split("/")[0] != self.world:
            raise ValueError(f"id: must start with the world's name, {self.world}/")
        return self

    @property
    def family(self) -> str:
        return self.id.rsplit("/", 1)[0]

    @property
    def digest(self) -> str:
        return digest_of(self)

    @property
    def needs_sandbox(self) -> bool:
        return self.sandbox is not None

    @property
    def hides_tests(self) -> bool:
        """Whether it is graded by tests that the policy must never see (I9)."""
        return any(isinstance(contract, TestsContract) for contract in self.contracts)

    @property
    def fact_collections(self) -> tuple[str, ...]:
        """Collections whose starting rows the graders need."""
        wanted = {c.requires for c in self.contracts if isinstance(c, AuthorisationContract)}
        return tuple(sorted(wanted))
