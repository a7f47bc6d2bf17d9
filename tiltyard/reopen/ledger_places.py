"""The call of the agent's that each row of the ledger belongs to."""

from collections import deque
from collections.abc import Iterable, Iterator

from schemas.world import DeliveryRecord, DeliveryReply, LedgerRow
from tiltyard.graders.trial import Place, agents_place


def rows_placed(
    rows: Iterable[LedgerRow], deliveries: Iterable[DeliveryRecord]
) -> Iterator[tuple[Place | None, LedgerRow]]:
    """Each row in their order, with the place of the agent's call that brought it about.

    What a deferred job did belongs to the call that let its time come: of those around it the one that began last,
    as a program's call may come in between the steps of a wait. ``None`` is for what came in no call of the agent's
    that was answered, such as in the settling wait.
    """
    around: list[DeliveryReply] = []
    coming = deque(_by_their_beginning(deliveries))
    for row in sorted(rows, key=lambda row: row.position):
        while coming and coming[0].first <= row.position:
            around.append(coming.popleft())
        while around and around[-1].last < row.position:
            around.pop()
        cause = row.cause if row.cause_kind == "delivery" else around[-1].delivery_id if around else ""
        yield agents_place(cause), row


def _by_their_beginning(deliveries: Iterable[DeliveryRecord]) -> list[DeliveryReply]:
    """Of two that begin with the same row the longer one comes first, as it is around the other."""
    replies = (one.reply for one in deliveries if one.reply is not None)
    return sorted(replies, key=lambda reply: (reply.first, -reply.last))
