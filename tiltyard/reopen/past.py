"""The past of an episode's world, and the part of it before a turn."""

from schemas.branch import Past
from schemas.world import DeliveryRecord, Facts
from tiltyard.errors import BadInput
from tiltyard.graders.trial import agents_place


def past_of(facts: Facts, episode_id: str) -> Past:
    """All that has happened in the world of an episode that has ended, with its settling and its drain."""
    return Past(
        episode_id=episode_id,
        generation=facts.generation,
        template_digest=facts.template_digest,
        deliveries=facts.deliveries,
        ledger=facts.ledger,
    )


def until_turn(past: Past, turn: int) -> Past:
    """What had happened when the agent's turn ``turn`` began, as far as the world can tell: all before the first
    call of that turn or of a later one, the harness's settling wait and the drain aside.

    A call from inside the sandbox belongs to the turn whose command made it. Raises ``BadInput`` where one of those
    was still under way then.
    """
    after = (number for number, one in enumerate(past.deliveries) if _is_after(one, turn))
    kept = past.deliveries[: next(after, len(past.deliveries))]
    last = max((one.reply.last for one in kept if one.reply is not None), default=0)
    ledger = tuple(row for row in past.ledger if row.position <= last)
    ids = {one.delivery_id for one in kept}
    interleaved = any(row.cause_kind == "delivery" and row.cause not in ids for row in ledger)
    if interleaved or any(one.reply is None for one in kept):
        raise BadInput(
            f"a call of the world was still under way when turn {turn} began", field="--turn", fix="choose another"
        )
    return past.model_copy(update={"deliveries": kept, "ledger": ledger})


def _is_after(delivery: DeliveryRecord, turn: int) -> bool:
    place = agents_place(delivery.delivery_id)
    return place is None or place[0] >= turn
