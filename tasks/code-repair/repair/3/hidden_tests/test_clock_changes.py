import calendar
import unittest
from datetime import datetime, timedelta

from rota.clock import last_sunday, offset
from rota.shifts import hours

YEARS = range(2001, 2041)


def sunday(year, month):
    return max(week[calendar.SUNDAY] for week in calendar.monthcalendar(year, month))


class TestClockChanges(unittest.TestCase):
    def test_last_sundays(self):
        for year in YEARS:
            for month in (3, 10):
                self.assertEqual(last_sunday(year, month), sunday(year, month), f"{year}-{month}")

    def test_the_night_of_each_change(self):
        for year in YEARS:
            for month, length in ((3, 7.0), (10, 9.0)):
                morning = datetime(year, month, sunday(year, month), 6)
                evening = morning - timedelta(hours=8)
                self.assertEqual(hours(evening.isoformat(), morning.isoformat()), length, f"{year}-{month}")

    def test_the_nights_around_it_are_ordinary(self):
        for year in YEARS:
            for month in (3, 10):
                for days in (-7, 1):
                    morning = datetime(year, month, sunday(year, month), 6) + timedelta(days=days)
                    evening = morning - timedelta(hours=8)
                    self.assertEqual(hours(evening.isoformat(), morning.isoformat()), 8.0, f"{morning}")

    def test_summer_begins_at_two(self):
        self.assertEqual(offset(datetime(2030, 3, 31, 1, 59)), timedelta(hours=1))
        self.assertEqual(offset(datetime(2030, 3, 31, 3, 0)), timedelta(hours=2))
