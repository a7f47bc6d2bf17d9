import unittest

from quotes.convert import convert


class TestConvert(unittest.TestCase):
    def test_the_same_currency(self):
        self.assertEqual(convert(1999, "EUR", "EUR"), 1999)

    def test_one_currency(self):
        self.assertEqual(convert(1000, "GBP", "EUR"), 1170)

    def test_one_after_the_other(self):
        self.assertEqual(convert(1000, "EUR", "USD"), 1080)
        self.assertEqual(convert(1000, "EUR", "GBP"), 850)
