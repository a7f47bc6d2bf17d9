import itertools
import unittest

from rooms.bookings import occupied
from rooms.free import free

SPANS = [(0, 9), (1, 3), (2, 4), (4, 6), (7, 8), (8, 12), (11, 12)]


def minutes(spans):
    return {minute for start, end in spans for minute in range(start, end)}


class TestRoom(unittest.TestCase):
    def test_any_bookings_in_any_order(self):
        for count in range(5):
            for bookings in itertools.permutations(SPANS, count):
                found = occupied(bookings)
                self.assertEqual(minutes(found), minutes(bookings), bookings)
                self.assertTrue(all(end < start for (_, end), (start, _) in itertools.pairwise(found)), bookings)

    def test_free_is_what_is_not_occupied(self):
        for count in range(4):
            for bookings in itertools.permutations(SPANS, count):
                gaps = free(bookings, 1, 11)
                self.assertEqual(minutes(gaps), set(range(1, 11)) - minutes(bookings), bookings)

    def test_the_bookings_are_left_as_they_were(self):
        bookings = [(5, 9), (1, 2)]
        occupied(bookings)
        self.assertEqual(bookings, [(5, 9), (1, 2)])

    def test_no_bookings(self):
        self.assertEqual(occupied([]), [])
        self.assertEqual(free([], 480, 1080), [(480, 1080)])
