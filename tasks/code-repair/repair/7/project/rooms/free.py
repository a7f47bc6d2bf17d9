"""Free times."""

from rooms.bookings import occupied


def free(bookings, opens, closes):
    """The times between ``opens`` and ``closes`` at which the room is free, in order."""
    gaps, at = [], opens
    for start, end in occupied(bookings):
        if start > at:
            gaps.append((at, min(start, closes)))
        at = max(at, end)
        if at >= closes:
            return gaps
    return [*gaps, (at, closes)] if at < closes else gaps
