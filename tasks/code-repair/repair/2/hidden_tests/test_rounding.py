import unittest
from decimal import ROUND_HALF_UP, Decimal

from billing.invoice import total_cents
from billing.tax import RATES, tax_cents


class TestRounding(unittest.TestCase):
    def test_every_amount_is_rounded_half_away_from_zero(self):
        for rate, per_cent in RATES.items():
            for net in range(-1500, 1501):
                exact = Decimal(net) * per_cent / 100
                wanted = int(exact.quantize(Decimal(1), rounding=ROUND_HALF_UP))
                self.assertEqual(tax_cents(net, rate), wanted, f"{net} at {rate}")

    def test_a_credit_note_takes_back_what_was_asked_for(self):
        lines = [(50, "reduced"), (450, "standard"), (1250, "standard")]
        credit = [(-net, rate) for net, rate in lines]
        self.assertEqual(total_cents(lines) + total_cents(credit), 0)

    def test_large_amounts_are_exact(self):
        self.assertEqual(tax_cents(10**17 + 50, "standard"), 21 * 10**15 + 11)

    def test_cents_are_whole(self):
        self.assertIsInstance(tax_cents(250, "standard"), int)

    def test_an_unknown_rate_is_refused(self):
        with self.assertRaises(KeyError):
            tax_cents(100, "luxury")
