import unittest

from catalogue.listing import listing


class TestListing(unittest.TestCase):
    def test_first_page(self):
        self.assertEqual(listing(["ash", "box"], 1, 2), "Page 1 of 1\n1. ash\n2. box")

    def test_last_page(self):
        self.assertEqual(listing(["ash", "box", "elm"], 2, 2), "Page 2 of 2\n3. elm")
