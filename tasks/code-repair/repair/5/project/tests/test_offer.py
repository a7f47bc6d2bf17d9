import unittest

from quotes.offer import offer


class TestOffer(unittest.TestCase):
    def test_two_currencies(self):
        self.assertEqual(offer(500, "USD", ["EUR", "GBP"]), {"USD": 500, "EUR": 460, "GBP": 395})
