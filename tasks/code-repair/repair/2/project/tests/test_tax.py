import unittest

from billing.tax import tax_cents


class TestTax(unittest.TestCase):
    def test_whole_cents(self):
        self.assertEqual(tax_cents(10000, "standard"), 2100)
        self.assertEqual(tax_cents(199, "none"), 0)

    def test_nearest_cent(self):
        self.assertEqual(tax_cents(199, "standard"), 42)
        self.assertEqual(tax_cents(120, "reduced"), 11)

    def test_half_a_cent(self):
        self.assertEqual(tax_cents(150, "standard"), 32)
        self.assertEqual(tax_cents(250, "standard"), 53)
