"""Trials told call by call: the facts and turns that an episode of this kind would leave."""

from typing import Any

from schemas.contract import Contract, ProcessRule
from schemas.decision import Call, Decision
from schemas.episode import End
from schemas.grade import Grade
from schemas.journal import TurnRecord
from schemas.observation import Observation
from schemas.task import Reference, Step, Task
from schemas.tool import ToolSpec
from schemas.world import (
    DeliveryRecord,
    DeliveryReply,
    Facts,
    Job,
    LedgerRow,
    Receipt,
    Row,
    RowChange,
    Shown,
    TemplateRef,
)
from tiltyard.graders import grade_episode
from tiltyard.graders.trial import Trial
from tiltyard.worlds.arguments import sent_digest

Body = dict[str, Any] | None
TOOLS = tuple(
    ToolSpec(name=name, description=name, parameters={}, cost_s=cost_s)
    for name, cost_s in (("look", 5), ("order", 30), ("get_receipt", 1), ("wait", 0))
)


def task_of(*contracts: Contract, process: tuple[ProcessRule, ...] = (), **fields: Any) -> Task:
    """A task with these contracts; its reference looks once and orders once."""
    steps = (Step(tool="look"), Step(tool="order"), Step(submit={}))
    return Task.model_validate(
        {
            "id": "shop/orders/1",
            "world": "shop",
            "instruction": "Order a lamp.",
            "contracts": contracts,
            "process": process,
            "references": (Reference(steps=steps),),
            **fields,
        }
    )


class Story:
    """Builds a trial. Calls happen one a turn, each 10 virtual seconds after the last."""

    def __init__(self, *initial: tuple[str, str, dict[str, Any]]) -> None:
        self.initial = [Row(world="shop", collection=c, key=k, body=body) for c, k, body in initial]
        self.turns: list[TurnRecord] = []
        self.deliveries: list[DeliveryRecord] = []
        self.ledger: list[LedgerRow] = []
        self.receipts: list[Receipt] = []
        self.jobs: list[Job] = []
        self.end = End.BUDGET_EXHAUSTED
        self.now_s = 0

    def call(
        self,
        tool: str,
        *rows: tuple[str, str, Body, Body],
        status: str = "ok",
        content: Any = None,
        code: str = "",
        **arguments: Any,
    ) -> "Story":
        """One call with the rows that it changed; with an operation id and rows it leaves a receipt."""
        turn, self.now_s = len(self.turns), self.now_s + 10
        delivery_id = f"episode/7/{turn}/0"
        shown = Shown.model_validate({"status": status, "content": content, "code": code})
        observation = Observation(tool=tool, **dict(shown))
        self.rows(*rows, cause=delivery_id, tool=tool)
        self._deliver(delivery_id, tool, arguments, shown, bool(rows))
        self.turns.append(
            TurnRecord(
                turn=turn,
                decision=Decision(calls=(Call(tool=tool, arguments=arguments),)),
                observations=(observation,),
                now_s=self.now_s,
            )
        )
        return self

    def inside(
        self, delivery_id: str, tool: str, *rows: tuple[str, str, Body, Body], status: str = "ok", **arguments: Any
    ) -> "Story":
        """A call that a program in the sandbox made."""
        self.rows(*rows, cause=delivery_id, tool=tool)
        self._deliver(delivery_id, tool, arguments, Shown.model_validate({"status": status}), bool(rows))
        return self

    def _deliver(
        self, delivery_id: str, tool: str, arguments: dict[str, Any], shown: Shown, committed: bool
    ) -> None:
        last = len(self.ledger)
        reply = DeliveryReply(
            delivery_id=delivery_id, shown=shown, committed=committed, first=1, last=last, now_s=self.now_s
        )
        self.deliveries.append(
            DeliveryRecord(
                delivery_id=delivery_id,
                tool=tool,
                arguments=arguments,
                request_digest="",
                arguments_digest=sent_digest(tool, None, arguments),
                reply=reply,
            )
        )
        if committed and "operation_id" in arguments:
            self.receipts.append(
                Receipt(
                    operation_id=arguments["operation_id"],
                    tool=tool,
                    arguments_digest="",
                    delivery_id=delivery_id,
                    at_s=self.now_s,
                )
            )

    def rows(self, *rows: tuple[str, str, Body, Body], cause: str = "job-1", tool: str = "job") -> "Story":
        """Rows that changed, by a job unless a delivery is named."""
        for collection, key, before, after in rows:
            self.ledger.append(
                LedgerRow(
                    position=len(self.ledger) + 1,
                    cause_kind="delivery" if "/" in cause else "job",
                    cause=cause,
                    tool=tool,
                    world="shop",
                    collection=collection,
                    key=key,
                    before=before,
                    after=after,
                    at_s=self.now_s,
                )
            )
        return self

    def settle(self, seconds: int) -> "Story":
        """The harness's own wait before the seal."""
        self.now_s += seconds
        self._deliver("episode/7/settle/0", "wait", {"seconds": seconds}, Shown(status="ok"), True)
        return self

    def submit(self, **answer: Any) -> "Story":
        self.turns.append(TurnRecord(turn=len(self.turns), decision=Decision(submit=answer), observations=()))
        self.end = End.SUBMITTED
        return self

    def give_up(self) -> "Story":
        self.turns.append(TurnRecord(turn=len(self.turns), decision=Decision(give_up="no"), observations=()))
        self.end = End.GAVE_UP
        return self

    @property
    def facts(self) -> Facts:
        changes = self._net_changes()
        return Facts(
            namespace="n-1",
            generation=7,
            world="shop",
            template=TemplateRef(),
            template_digest="",
            tools_digest="",
            now_s=self.now_s,
            deliveries=tuple(self.deliveries),
            ledger=tuple(self.ledger),
            receipts=tuple(self.receipts),
            jobs=tuple(self.jobs),
            before_drain=changes,
            changes=changes,
            initial=tuple(self.initial),
        )

    def _net_changes(self) -> tuple[RowChange, ...]:
        first: dict[tuple[str, str], Any] = {}
        last: dict[tuple[str, str], Any] = {}
        for row in self.ledger:
            first.setdefault((row.collection, row.key), row.before)
            last[row.collection, row.key] = row.after
        return tuple(
            RowChange(world="shop", collection=collection, key=key, before=before, after=last[collection, key])
            for (collection, key), before in first.items()
            if before != last[collection, key]
        )

    def trial(self, task: Task) -> Trial:
        return Trial(task, self.facts, tuple(self.turns), self.end, TOOLS)

    def grade(self, task: Task) -> Grade:
        return grade_episode(task, self.facts, self.turns, self.end, TOOLS)

    def why(self, contract: Contract) -> str:
        """Why the contract failed; empty when it passed."""
        (result,) = self.grade(task_of(contract)).contracts
        assert result.passed == (not result.why)
        return "; ".join(result.why)
