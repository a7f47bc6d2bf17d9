import unittest

from rooms.bookings import occupied


class TestBookings(unittest.TestCase):
    def test_apart(self):
        self.assertEqual(occupied([(600, 660), (540, 570)]), [(540, 570), (600, 660)])

    def test_overlapping(self):
        self.assertEqual(occupied([(540, 600), (570, 660)]), [(540, 660)])

    def test_touching(self):
        self.assertEqual(occupied([(540, 600), (600, 660)]), [(540, 660)])

    def test_one_within_another(self):
        self.assertEqual(occupied([(540, 720), (600, 660)]), [(540, 720)])
