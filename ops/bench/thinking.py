"""A policy that thinks as long as a fast model: a quarter of a second a turn. It needs no package of ours."""

import time
from typing import Any

THINKS_S = 0.25


def act(view: dict[str, Any]) -> dict[str, Any]:
    """Asks for the ticket until one turn is left, then says that it has counted."""
    time.sleep(THINKS_S)
    if view["budgets"]["turns"] == 1:
        return {"submit": {"outcome": "counted"}}
    return {"calls": [{"tool": "get_ticket", "arguments": {"ticket_id": "B-1"}}]}
