import unittest

from contacts.cards import read_cards


class TestCards(unittest.TestCase):
    def test_blocks(self):
        self.assertEqual(read_cards("name: Ada\n\nname: Bo\n\n"), [{"name": "Ada"}, {"name": "Bo"}])

    def test_the_text_may_end_with_its_last_card(self):
        self.assertEqual(read_cards("name: Ada\n\nname: Bo\nphone: 12"), [{"name": "Ada"}, {"name": "Bo", "phone": "12"}])

    def test_a_line_without_a_colon(self):
        with self.assertRaises(ValueError):
            read_cards("name Ada\n")
