import unittest

from billing.invoice import total_cents


class TestInvoice(unittest.TestCase):
    def test_lines_are_added(self):
        self.assertEqual(total_cents([(10000, "standard"), (500, "reduced")]), 12645)

    def test_each_line_is_rounded_by_itself(self):
        self.assertEqual(total_cents([(250, "standard"), (250, "standard")]), 606)
