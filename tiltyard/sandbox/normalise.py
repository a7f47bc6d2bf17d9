"""Parts of a command's output that differ between equal runs (I7). Every pattern takes linear time."""

import re
from collections.abc import Mapping, Sequence

from schemas.sandbox import Normaliser

PATTERNS: Mapping[Normaliser, tuple[re.Pattern[str], str]] = {
    "durations": (
        re.compile(r"\b\d{1,9}(?:\.\d{1,9})? ?(?:seconds?|secs?|ms|us|ns|s|minutes?|min)\b"),
        "<duration>",
    ),
    "addresses": (re.compile(r"\b0x[0-9a-fA-F]{4,16}\b"), "<address>"),
    "process_ids": (re.compile(r"\b(pid|PID|process)([ =:]{1,3})\d{1,9}\b"), r"\1\2<pid>"),
    "temporary_names": (re.compile(r"(/tmp/)[A-Za-z0-9_.-]{1,255}"), r"\1<name>"),
}


def normalised(text: str, names: Sequence[Normaliser]) -> str:
    """``text`` with the parts that ``names`` say replaced by a word for them."""
    for name in names:
        pattern, word = PATTERNS[name]
        text = pattern.sub(word, text)
    return text
