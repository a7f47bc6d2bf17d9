import unittest

from contacts.book import phones
from contacts.cards import read_cards

CARDS = [{"name": "Ida", "phone": "+31 20 1"}, {"name": "Jo", "city": "Ghent: old town"}, {"name": "Kim"}]


def text(cards, gap="\n", end=""):
    blocks = ["".join(f"{field}: {value}\n" for field, value in card.items()) for card in cards]
    return gap.join(blocks) + end


class TestReading(unittest.TestCase):
    def test_any_number_of_cards_and_any_end(self):
        for count in range(len(CARDS) + 1):
            for gap in ("\n", "\n\n\n", "\n# remark\n\n"):
                for end in ("", "\n", "\n\n", "# the end", "\n# the end\n"):
                    found = read_cards(text(CARDS[:count], gap, end))
                    self.assertEqual(found, CARDS[:count], repr((gap, end)))

    def test_nothing_and_remarks_alone_are_no_card(self):
        self.assertEqual(read_cards(""), [])
        self.assertEqual(read_cards("# one\n\n# two"), [])

    def test_the_last_line_without_an_end(self):
        self.assertEqual(read_cards("name: Lu"), [{"name": "Lu"}])

    def test_an_error_names_its_line(self):
        with self.assertRaisesRegex(ValueError, "line 4"):
            read_cards("name: Mo\n\nname: Nia\nphone 7")

    def test_phones_of_all(self):
        self.assertEqual(phones(text(CARDS + [{"name": "Oz", "phone": "9"}])), {"Ida": "+31 20 1", "Oz": "9"})
