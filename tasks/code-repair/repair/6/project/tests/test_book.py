import unittest

from contacts.book import phones


class TestBook(unittest.TestCase):
    def test_phones(self):
        self.assertEqual(phones("name: Ada\nphone: 12\n\nname: Bo\n\n"), {"Ada": "12"})

    def test_the_last_one_counts(self):
        self.assertEqual(phones("name: Cem\nphone: 34\n"), {"Cem": "34"})
