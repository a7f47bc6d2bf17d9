import unittest

from warehouse.slips import slip_for


class TestSlips(unittest.TestCase):
    def test_an_order_is_added_to_the_slip_that_is_handed_in(self):
        self.assertEqual(slip_for([("cup", 1)], ["2 x mug"]), ["2 x mug", "1 x cup"])

    def test_each_order_has_its_own_slip(self):
        self.assertEqual(slip_for([("pen", 2)]), ["2 x pen"])
        self.assertEqual(slip_for([("ink", 1), ("nib", 4)]), ["1 x ink", "4 x nib"])

    def test_nothing_is_packed_of_nothing(self):
        self.assertEqual(slip_for([("pen", 0)]), [])
