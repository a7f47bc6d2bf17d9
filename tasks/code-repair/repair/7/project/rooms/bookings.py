"""Bookings of one room."""


def occupied(bookings):
    """The times at which the room is in use, in order, without overlaps."""
    merged = []
    for start, end in sorted(bookings):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged
