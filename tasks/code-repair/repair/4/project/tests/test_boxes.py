import unittest

from warehouse.boxes import labels


class TestBoxes(unittest.TestCase):
    def test_labels(self):
        self.assertEqual(labels([[("pen", 2)], [("ink", 1)]]), ["1 lines, 2 x pen", "1 lines, 1 x ink"])
