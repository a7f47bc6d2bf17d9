"""Waiting for what another process does."""

import time
from collections.abc import Callable
from typing import TypeVar

AnswerT = TypeVar("AnswerT")


def eventually(answer: Callable[[], AnswerT | None], what: str, limit_s: float = 90) -> AnswerT:
    """The first answer that is true of something. The limit is far beyond what a busy machine needs."""
    deadline = time.monotonic() + limit_s
    while not (found := answer()):
        assert time.monotonic() < deadline, f"did not happen: {what}"
        time.sleep(0.02)
    return found
