import unittest

from catalogue.pages import page, page_count


class TestPages(unittest.TestCase):
    def test_full_pages(self):
        self.assertEqual(page_count(10, 5), 2)
        self.assertEqual(page(["ash", "box", "elm", "fir"], 2, 2), ["elm", "fir"])

    def test_the_last_page_may_be_shorter(self):
        self.assertEqual(page_count(11, 5), 3)
        self.assertEqual(page(["ash", "box", "elm"], 2, 2), ["elm"])

    def test_no_page_after_the_last(self):
        with self.assertRaises(IndexError):
            page(["ash", "box"], 2, 2)
