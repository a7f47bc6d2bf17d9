import unittest

from catalogue.listing import listing
from catalogue.pages import page, page_count


class TestPaging(unittest.TestCase):
    def test_every_entry_is_on_exactly_one_page(self):
        for length in range(30):
            entries = list(range(length))
            for size in range(1, 9):
                pages = [page(entries, at + 1, size) for at in range(page_count(length, size))]
                self.assertEqual([one for part in pages for one in part], entries)
                self.assertTrue(all(0 < len(part) <= size for part in pages))

    def test_nothing_has_no_page(self):
        self.assertEqual(page_count(0, 7), 0)
        with self.assertRaises(IndexError):
            page([], 1, 7)

    def test_one_page_and_no_more(self):
        self.assertEqual(page_count(1, 50), 1)
        self.assertEqual(page_count(50, 50), 1)
        self.assertEqual(page_count(51, 50), 2)

    def test_page_zero_is_not_there(self):
        with self.assertRaises(IndexError):
            page([1, 2, 3], 0, 2)

    def test_a_size_of_nothing_is_refused(self):
        with self.assertRaises(ValueError):
            page_count(3, 0)

    def test_listing_of_a_short_page(self):
        self.assertEqual(listing(["oak", "yew", "sal", "nut", "ivy"], 3, 2), "Page 3 of 3\n5. ivy")
