import unittest

from warehouse.boxes import labels
from warehouse.slips import slip_for


class TestPacking(unittest.TestCase):
    def test_many_orders_in_a_row(self):
        for number in range(1, 20):
            self.assertEqual(slip_for([(f"article {number}", number)]), [f"{number} x article {number}"])

    def test_a_slip_that_is_written_on_later_is_nobody_elses(self):
        slip_for([("jar", 3)]).append("fragile")
        self.assertEqual(slip_for([("lid", 3)]), ["3 x lid"])

    def test_the_slip_that_is_handed_in_is_the_one_that_comes_back(self):
        slip = []
        self.assertIs(slip_for([("jar", 1)], slip), slip)
        self.assertEqual(slip, ["1 x jar"])

    def test_an_empty_order_among_others(self):
        self.assertEqual(labels([[("tin", 1), ("can", 2)], [], [("pot", 5)]]), ["2 lines, 1 x tin", "empty", "1 lines, 5 x pot"])
