"""The turns of an episode: each call joined with the world's record of it, its receipt and what it changed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from schemas.base import JsonValue
from schemas.decision import Call
from schemas.evidence import Evidence, Reading
from schemas.journal import TurnRecord
from schemas.observation import Observation
from schemas.story import CallStory, FieldChange, TurnStory, WorldChange
from schemas.world import DeliveryRecord, Job, LedgerRow, Receipt
from tiltyard.episode.delivery import delivery_id
from tiltyard.graders.state import kind_of
from tiltyard.graders.trial import Place, agents_place
from tiltyard.graders.values import MISSING, differing, member
from tiltyard.reopen.ledger_places import rows_placed

KeyT = TypeVar("KeyT")
ItemT = TypeVar("ItemT")


@dataclass(frozen=True)
class CallFacts:
    """All that is known of calls: by their places what the world recorded and changed, by their ids the rest."""

    ids: tuple[str, int] | None = None
    deliveries: Mapping[Place, DeliveryRecord] = field(default_factory=dict)
    rows: Mapping[Place | None, Sequence[LedgerRow]] = field(default_factory=dict)
    receipts: Mapping[str, Receipt] = field(default_factory=dict)
    jobs: Mapping[str, Sequence[Job]] = field(default_factory=dict)
    readings: Mapping[str, Reading] = field(default_factory=dict)
    inside: Mapping[tuple[int, int], Sequence[Place]] = field(default_factory=dict)

    @classmethod
    def of(cls, evidence: Evidence) -> "CallFacts":
        """All that the evidence says."""
        facts = evidence.facts
        placed = ((agents_place(record.delivery_id), record) for record in facts.deliveries)
        deliveries = {place: record for place, record in placed if place is not None}
        return cls(
            ids=(evidence.spec.episode_id, facts.generation),
            deliveries=deliveries,
            rows=_grouped(rows_placed((row for row in facts.ledger if not row.system), facts.deliveries)),
            receipts={receipt.delivery_id: receipt for receipt in facts.receipts},
            jobs=_grouped((job.created_by, job) for job in facts.jobs),
            readings=evidence.in_flight,
            inside=_grouped((place[:2], place) for place in sorted(deliveries) if place[2]),
        )

    @property
    def later(self) -> tuple[WorldChange, ...]:
        """Changes that belong to no call of the agent's that has ended."""
        return tuple(map(change_of, self.rows.get(None, ())))


def _grouped(pairs: Iterable[tuple[KeyT, ItemT]]) -> Mapping[KeyT, list[ItemT]]:
    groups: defaultdict[KeyT, list[ItemT]] = defaultdict(list)
    for key, item in pairs:
        groups[key].append(item)
    return groups


def told_turn(record: TurnRecord, told: CallFacts, kept: int = 0) -> TurnStory:
    """One turn; the first ``kept`` ones a fork has of its parent."""
    decision, shown = record.decision, record.observations
    return TurnStory(
        turn=record.turn,
        thought=decision.thought,
        calls=tuple(_own_call(record, index, call, told) for index, call in enumerate(decision.calls)),
        ask=decision.ask,
        answer=shown[0] if decision.ask is not None and shown else None,
        submit=decision.submit,
        give_up=decision.give_up,
        tokens=decision.tokens,
        faults=record.faults,
        now_s=record.now_s if shown is not None else None,
        checkpoint=record.checkpoint,
        kept=record.turn < kept,
    )


def _own_call(record: TurnRecord, index: int, call: Call, told: CallFacts) -> CallStory:
    place = (record.turn, index, 0)
    observations = record.observations or ()
    sent = delivery_id(*told.ids, record.turn, index) if told.ids is not None else ""
    inside = told.inside.get(place[:2], ())
    return _call(place, call.tool, sent, told).model_copy(
        update={
            "arguments": call.arguments,
            "shown": observations[index] if index < len(observations) else None,
            "inside": tuple(_inside(one, told) for one in inside),
        }
    )


def _inside(place: Place, told: CallFacts) -> CallStory:
    """A call that a program in the sandbox made; what it was shown, the agent may never have seen."""
    made = told.deliveries[place]
    shown = Observation(tool=made.tool, **dict(made.reply.shown)) if made.reply is not None else None
    return _call(place, made.tool, made.delivery_id, told).model_copy(
        update={"arguments": made.arguments, "shown": shown}
    )


def _call(place: Place, tool: str, sent: str, told: CallFacts) -> CallStory:
    """What the world has of a call, whoever made it."""
    recorded = told.deliveries.get(place)
    reply = recorded.reply if recorded is not None else None
    return CallStory(
        call=place[1],
        request=place[2],
        tool=tool,
        arguments={},
        delivery_id=sent,
        fault=reply.fault if reply is not None else "",
        effect=reply is not None and reply.committed,
        reading=told.readings.get(sent),
        receipt=told.receipts.get(sent),
        changes=tuple(map(change_of, told.rows.get(place, ()))),
        jobs=tuple(told.jobs.get(sent, ())) if sent else (),
    )


def change_of(row: LedgerRow) -> WorldChange:
    """A row of the ledger as a person reads it: only what differs."""
    kind = kind_of(row)
    body = {"created": row.after, "deleted": row.before, "updated": None}[kind]
    return WorldChange(
        position=row.position,
        job=row.cause if row.cause_kind == "job" else "",
        tool=row.tool,
        world=row.world,
        collection=row.collection,
        key=row.key,
        change=kind,
        fields=tuple(field_changes(row.before, row.after)) if kind == "updated" else (),
        body=body,
        at_s=row.at_s,
    )


def field_changes(before: JsonValue, after: JsonValue) -> Iterator[FieldChange]:
    """The smallest parts that differ."""
    for path in differing(before, after):
        old, new = (member(value, path) if path else value for value in (before, after))
        yield FieldChange.model_validate(
            {
                "path": path,
                "change": "created" if old is MISSING else "deleted" if new is MISSING else "updated",
                "before": None if old is MISSING else old,
                "after": None if new is MISSING else new,
            }
        )
