"""A link that is asked something, too: what cannot be answered is told to whoever asked, and logged in a line."""

import logging
import socket
from typing import Any

import pytest

from infra.sandboxes.link import Link
from tiltyard.errors import EnvironmentFailed


async def fail(said: dict[str, Any]) -> dict[str, Any]:
    raise ValueError("no such\nnumber")


async def test_a_question_that_fails_is_answered_and_takes_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    here, there = socket.socketpair()
    asking = await Link.over(here, lambda: EnvironmentFailed("gone"))
    asked = await Link.over(there, lambda: EnvironmentFailed("gone"), asked=fail)
    with pytest.raises(EnvironmentFailed, match="no such"):
        await asking.ask("count")
    asking.close()
    asked.close()
    (line,) = caplog.text.splitlines()
    assert "'count'" in line
    assert "ValueError" in line
