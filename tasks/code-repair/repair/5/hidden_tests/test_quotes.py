import unittest

from quotes import convert as converting
from quotes.convert import convert, rate
from quotes.offer import offer
from quotes.table import TABLE


class TestQuotes(unittest.TestCase):
    def test_every_pair_in_both_orders(self):
        for pairs in (list(TABLE), list(reversed(TABLE))):
            for source, target in pairs:
                self.assertEqual(convert(10_000, source, target), 100 * TABLE[source, target])

    def test_a_pair_that_is_not_quoted_is_refused_after_one_that_is(self):
        convert(1, "GBP", "EUR")
        with self.assertRaises(LookupError):
            convert(1, "GBP", "CHF")

    def test_a_rate_is_looked_up_once(self):
        asked = []
        real = converting.look_up
        converting.look_up = lambda *pair: asked.append(pair) or real(*pair)
        try:
            for _ in range(3):
                rate("USD", "GBP")
                rate("EUR", "CHF")
        finally:
            converting.look_up = real
        self.assertEqual(len(asked), len(set(asked)))

    def test_an_offer_in_all_currencies(self):
        wanted = {"EUR": 250, "USD": 270, "GBP": 212, "CHF": 237}
        self.assertEqual(offer(250, "EUR", ["USD", "GBP", "CHF"]), wanted)
