"""``wait``: the one call that spans transactions.

Its record is opened with its target before the clock moves. Each further transaction runs one due job; the
last one moves the clock to the target and closes the record. Any sender of the same delivery may do the next
step, so a crash, a repeat or a concurrent duplicate neither runs more nor forgets.
"""

from dataclasses import replace

from schemas.world import DeliveryReply, DeliveryRequest, Shown
from tiltyard.worlds.clock import Clock, made_up_s
from tiltyard.worlds.draft import Draft
from tiltyard.worlds.execution import STANDS_STILL, cause_of
from tiltyard.worlds.faults import TIMEOUT
from tiltyard.worlds.kit import WorldKind
from tiltyard.worlds.store import Delivery, OpenWait


def step(draft: Draft, kind: WorldKind, request: DeliveryRequest, delivery: Delivery) -> Delivery:
    """One transaction's worth of an open wait; the record has a reply when it was the last."""
    assert delivery.wait is not None, "only a wait is ever open"
    wait, cause = delivery.wait, cause_of(request)
    clock = Clock(draft, kind.jobs, wait.jobs_run)
    if clock.run_next(wait.target_s, cause):
        return replace(delivery, wait=wait.model_copy(update={"jobs_run": clock.jobs_run}))
    reached = clock.advance(wait.target_s, cause)
    return replace(delivery, reply=_reply(draft, delivery.delivery_id, wait, reached), wait=None)


def _reply(draft: Draft, delivery_id: str, wait: OpenWait, reached: bool) -> DeliveryReply:
    """The answer is read off the recorded start and the clock, both of them in the ledger's range."""
    now_s = draft.now_s
    shown = Shown(status="ok", content={"now_s": now_s, "waited_s": now_s - wait.started_at_s})
    if not reached:
        shown = STANDS_STILL
    return DeliveryReply(
        delivery_id=delivery_id,
        shown=TIMEOUT if wait.fault == "commit_then_drop" else shown,
        committed=False,
        first=wait.first,
        last=draft.position,
        fault=wait.fault,
        now_s=now_s,
        elsewhere_s=made_up_s(draft),
    )
