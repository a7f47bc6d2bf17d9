"""What a policy is shown of one call."""

from typing import Literal

from pydantic import JsonValue

from schemas.base import Model

ObservationStatus = Literal["ok", "error", "timeout"]


class Observation(Model):
    """The shown outcome of one call, a question or a notice.

    ``timeout`` means that no reply arrived: the effect may or may not have happened. ``code`` and ``message``
    describe an error. ``truncated_bytes`` counts what was cut from a content and a message over the
    task's limit, and from a code of more than 200 characters.
    """

    tool: str
    status: ObservationStatus
    content: JsonValue = None
    code: str = ""
    message: str = ""
    truncated_bytes: int = 0
