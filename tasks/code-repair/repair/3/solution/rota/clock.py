"""Local time in Central Europe."""

from datetime import date, datetime, timedelta

WINTER = timedelta(hours=1)
SUMMER = timedelta(hours=2)


def last_sunday(year, month):
    """The day of the last Sunday of a month with 31 days."""
    weekday = date(year, month, 31).weekday()
    return 31 - (weekday + 1) % 7


def offset(local):
    """How far a local time is ahead of UTC."""
    begins = datetime(local.year, 3, last_sunday(local.year, 3), 2)
    ends = datetime(local.year, 10, last_sunday(local.year, 10), 3)
    return SUMMER if begins <= local < ends else WINTER
