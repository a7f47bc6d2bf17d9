"""Text of policies and tasks as it may be shown: nothing in it steers the terminal or reorders what is read."""

import re

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but for tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # directions of writing
    "\ud800-\udfff]"  # half characters, which no terminal can be sent
)


def visible(text: str) -> str:
    """The text with control characters, directions of writing and half characters written as escapes."""
    return _HIDDEN.sub(_escaped, text)


def visible_cell(text: str) -> str:
    """The same for a cell of a table, which is one line."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
