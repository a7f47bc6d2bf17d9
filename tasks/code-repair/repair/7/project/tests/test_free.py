import unittest

from rooms.free import free


class TestFree(unittest.TestCase):
    def test_between_bookings(self):
        self.assertEqual(free([(540, 600), (660, 720)], 480, 780), [(480, 540), (600, 660), (720, 780)])

    def test_a_long_booking_with_a_short_one_within(self):
        self.assertEqual(free([(540, 720), (600, 660)], 540, 780), [(720, 780)])
