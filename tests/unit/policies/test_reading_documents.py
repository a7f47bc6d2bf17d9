"""How the clerk reads policy documents that disagree."""

import pytest

from schemas.base import JsonObject, JsonValue
from tiltyard.policies.documents import Ruling, ruling_on


def document(policy_id: str, says: str, rank: int = 3, effective_on: str = "2025-01-01") -> JsonObject:
    text = f"Devices that failed by water damage are {says}. Ask the desk."
    return {"policy_id": policy_id, "rank": rank, "effective_on": effective_on, "text": text}


NO = "not replaced"
YES = "replaced"

CASES: list[tuple[list[JsonValue], Ruling]] = [
    ([], Ruling("replace")),
    ([document("P1", NO)], Ruling("refuse", "P1")),
    ([document("P1", YES)], Ruling("replace", "P1")),
    ([document("P1", NO, rank=2), document("P2", YES, rank=1)], Ruling("replace", "P2")),
    ([document("P1", NO, rank=1), document("P2", YES, rank=2, effective_on="2026-01-01")], Ruling("refuse", "P1")),
    ([document("P1", NO), document("P2", YES, effective_on="2025-02-01")], Ruling("replace", "P2")),
    ([document("P1", NO), document("P2", YES)], Ruling("undecided")),
    ([document("P1", NO), document("P2", NO)], Ruling("refuse", "P1")),
    ([None, "text", {"text": 5}, document("P1", NO)], Ruling("refuse", "P1")),
]


@pytest.mark.parametrize(("documents", "ruling"), CASES)
def test_rank_decides_then_the_date_then_nobody(documents: list[JsonValue], ruling: Ruling) -> None:
    assert ruling_on("water damage", documents) == ruling


def test_a_document_on_another_cause_says_nothing() -> None:
    assert ruling_on("wear", [document("P1", NO)]) == Ruling("replace")
    assert ruling_on("water", [document("P1", NO)]) == Ruling("replace")
