"""What is said: errors, and JSON in two functions."""

from __future__ import annotations

import binascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


class Failure(Exception):
    """An error reply. ``kind`` names a class of the host's errors."""

    def __init__(self, kind: str, message: str, **more: str) -> None:
        super().__init__(message)
        self.said = {"kind": kind, "message": message, **more}


class Refused(Exception):
    """An operation that cannot be: its recorded outcome. ``code`` is one of those of ``SandboxReply``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def bad(message: str, field: str = "", fix: str = "") -> Failure:
    return Failure("BadInput", message, field=field, fix=fix)


class _Scanning:
    """What the C scanner of ``json`` asks its decoder."""

    strict, object_hook, object_pairs_hook, array_hook = True, None, None, None
    parse_float, parse_int = float, int

    @staticmethod
    def parse_constant(name: str) -> None:
        raise ValueError(f"{name} is no JSON")


def _json() -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    """(dumps, loads) of the C parts that ``json`` is made of, or of ``json`` where those are others."""
    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner

        scan = make_scanner(_Scanning())  # type: ignore[arg-type]
        encode = make_encoder(None, _no_json, encode_basestring_ascii, None, ":", ",", False, False, False)

        def loads(text: str) -> Any:
            try:
                value, end = scan(text, 0)
            except (StopIteration, SystemError):  # SystemError: its own error would be in the module json
                raise ValueError("no JSON") from None
            if text[end : end + 1]:
                raise ValueError("more than one JSON value")
            return value

        def dumps(value: Any) -> str:
            return "".join(encode(value, 0))

        if loads(dumps({"a": [1, "b"]})) != {"a": [1, "b"]}:
            raise ImportError
    except (ImportError, AttributeError, TypeError):
        import json

        return json.dumps, json.loads
    return dumps, loads


def _no_json(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is no JSON")


dumps, loads = _json()


def as_text(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def is_no_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
