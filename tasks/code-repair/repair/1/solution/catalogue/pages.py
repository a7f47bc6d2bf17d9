"""Cutting a list into pages."""


def page_count(entries, size):
    """How many pages ``entries`` entries fill, with ``size`` on each."""
    if size < 1:
        raise ValueError("size must be at least 1")
    return -(-entries // size)


def page(entries, number, size):
    """The entries of one page. Raises ``IndexError`` for a page that is not there."""
    if not 1 <= number <= page_count(len(entries), size):
        raise IndexError(f"there is no page {number}")
    start = (number - 1) * size
    return entries[start : start + size]
