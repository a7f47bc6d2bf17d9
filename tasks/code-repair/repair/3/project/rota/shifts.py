"""Shifts."""

from datetime import datetime

from rota.clock import offset


def hours(start, end):
    """Hours between two local times, written like ``2023-01-31T22:00``."""
    began, ended = datetime.fromisoformat(start), datetime.fromisoformat(end)
    if ended <= began:
        raise ValueError("a shift ends after it has begun")
    return ((ended - offset(ended)) - (began - offset(began))).total_seconds() / 3600
