"""SIGKILL while a program in the sandbox calls the world: of the world server, and of the worker."""

import pytest

from infra.sandboxes.client import HostClient
from schemas.base import JsonValue
from schemas.contract import AnswerContract, ExpectedChange, Outcome, StateContract
from schemas.episode import End, Validity
from schemas.sandbox import SandboxPlan
from schemas.task import Reference, Step, Task
from schemas.world import TemplateRef
from tests.e2e.ground.kills import DONE, PAUSE_S, played
from workers.ground import Ground
from workers.settings import Settings

TICKETS = ("W-1", "W-2", "W-3")

WORK = """
import http.client, json

desk = http.client.HTTPConnection("desk.world")

def call(tool, **arguments):
    desk.request("POST", "/" + tool, json.dumps(arguments))
    answer = desk.getresponse()
    said = json.loads(answer.read())
    assert answer.status == 200, (answer.status, said)
    return said

for number, ticket in enumerate(["W-1", "W-2", "W-3"], 1):
    for _ in range(60):
        call("get_ticket", ticket_id=ticket)
    print(call("close_ticket", ticket_id=ticket, summary="done", operation_id=ticket)["status"])
"""

COMMAND = f"sleep {PAUSE_S} > /dev/null 2>&1 & python3 work.py; kill $! 2> /dev/null; true"
"""The sleep says that it is under way."""


def task() -> Task:
    tickets: list[JsonValue] = [{"ticket_id": one, "title": "Close it", "report": "It is done."} for one in TICKETS]
    closed = tuple(
        ExpectedChange(
            collection="tickets",
            key=one,
            change="updated",
            fields={"status": "closed"},
            may_change=("summary",),
        )
        for one in TICKETS
    )
    return Task(
        id="code-repair/closed-over-http/1",
        world="code-repair",
        instruction="Close the tickets.",
        template=TemplateRef(params={"tickets": tickets}),
        tools=("shell",),
        sandbox=SandboxPlan(files={"work.py": WORK}, exposes={"desk": ("get_ticket", "close_ticket")}),
        contracts=(StateContract(outcomes=(Outcome(changes=closed),)), AnswerContract(accept=(DONE,))),
        references=(
            Reference(
                steps=(Step(tool="shell", arguments={"command": COMMAND}), Step(submit=DONE)), virtual_s=1000
            ),
        ),
    )


@pytest.mark.parametrize("victim", ["world", "worker"])
async def test_a_kill_changes_nothing_and_nothing_is_done_twice(
    ground: Ground, settings: Settings, victim: str
) -> None:
    async with HostClient(settings.sandboxes_socket) as sandboxes:
        offer = await sandboxes.offer("bubblewrap")
    if not offer.available:
        pytest.skip(f"{offer.problem}: {offer.fix}")
    calm, before = await played(ground, settings, task())
    result, evidence = await played(ground, settings, task(), victim)
    for one in (calm, result):
        assert (one.end, one.validity, one.score.completion) == (End.SUBMITTED, Validity.VALID, 1), one.reason
        assert (one.counts.effects, one.counts.duplicates, one.counts.tool_calls) == (3, 0, 1)
    assert result.digests.trace == calm.digests.trace
    for facts in (before.facts, evidence.facts):
        numbers = [int(one.delivery_id.rpartition("/http/")[2]) for one in facts.deliveries]
        assert numbers == list(range(1, 184))
