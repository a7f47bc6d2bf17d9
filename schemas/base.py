"""What every model shares, and the one canonical form that digests are taken of."""

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic_core import PydanticSerializationError

__all__ = ["JsonObject", "JsonValue", "Model", "canonical", "digest_of", "sha256"]

JsonObject = dict[str, JsonValue]


class Model(BaseModel):
    """A frozen value. Unknown fields are refused, so that a typing error never passes silently."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def canonical(value: Any) -> bytes:
    """The one JSON text of a value: keys sorted, no white space, UTF-8.

    Accepts models and whatever ``json`` accepts; raises ``ValueError`` for NaN and infinities.
    """
    if isinstance(value, BaseModel):
        value = _dump(value)
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_dump
    ).encode("utf-8", "surrogatepass")


def _dump(value: Any) -> Any:
    if isinstance(value, BaseModel):
        try:
            return value.model_dump(mode="json")
        except PydanticSerializationError as error:
            if isinstance(error.__cause__, KeyboardInterrupt):  # Ctrl-C while Python was asked for a field
                raise error.__cause__ from None
            raise
    raise TypeError(f"{type(value).__name__} has no canonical form")


def sha256(data: bytes) -> str:
    """``sha256:`` and 64 hex digits: how content and digests are named everywhere."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_of(value: Any) -> str:
    """Digest of a value's canonical form."""
    return sha256(canonical(value))
