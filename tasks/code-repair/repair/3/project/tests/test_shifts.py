import unittest

from rota.shifts import hours


class TestShifts(unittest.TestCase):
    def test_an_ordinary_night(self):
        self.assertEqual(hours("2023-01-31T22:00", "2023-02-01T06:00"), 8.0)

    def test_clock_changes_of_2023(self):
        self.assertEqual(hours("2023-03-25T22:00", "2023-03-26T06:00"), 7.0)
        self.assertEqual(hours("2023-10-28T22:00", "2023-10-29T06:00"), 9.0)

    def test_spring_of_2024(self):
        self.assertEqual(hours("2024-03-30T22:00", "2024-03-31T06:00"), 7.0)
        self.assertEqual(hours("2024-03-23T22:00", "2024-03-24T06:00"), 8.0)

    def test_a_shift_ends_after_it_has_begun(self):
        with self.assertRaises(ValueError):
            hours("2023-01-31T22:00", "2023-01-31T06:00")
