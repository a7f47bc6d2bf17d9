"""How a clerk reads policy documents: what they say of a cause, and which of them counts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

Verdict = Literal["replace", "refuse", "undecided"]


@dataclass(frozen=True)
class Ruling:
    """``policy_id`` is the document that decided, empty when none says anything."""

    verdict: Verdict
    policy_id: str = ""


def ruling_on(cause: str, documents: Sequence[JsonValue]) -> Ruling:
    """What the documents decide for a cause: lower rank first, then the later date.

    Without a word on the cause the ordinary rules hold (``replace``); documents of equal standing that disagree
    leave it ``undecided``.
    """
    saying = re.compile(rf"[Ff]ailed by {re.escape(cause)} are (not )?replaced")
    found = [(document, said) for document in documents if (said := saying.search(_text(document, "text")))]
    if not found:
        return Ruling("replace")
    first_rank = min(_rank(document) for document, _ in found)
    found = [(document, said) for document, said in found if _rank(document) == first_rank]
    last_date = max(_text(document, "effective_on") for document, _ in found)
    found = [(document, said) for document, said in found if _text(document, "effective_on") == last_date]
    if len({said[1] for _, said in found}) > 1:
        return Ruling("undecided")
    document, said = found[0]
    return Ruling("refuse" if said[1] else "replace", _text(document, "policy_id"))


def _rank(document: JsonValue) -> int:
    rank = document.get("rank") if isinstance(document, dict) else None
    return rank if isinstance(rank, int) else 100


def _text(document: JsonValue, name: str) -> str:
    value = document.get(name) if isinstance(document, dict) else None
    return value if isinstance(value, str) else ""
