import unittest

from sync.plan import waits


class TestPlan(unittest.TestCase):
    def test_twice_as_long_each_time(self):
        self.assertEqual(waits([False, False, False]), [1, 2, 4])

    def test_sixty_seconds_at_most(self):
        self.assertEqual(waits([False] * 8), [1, 2, 4, 8, 16, 32, 60, 60])

    def test_a_success_begins_anew(self):
        self.assertEqual(waits([False, False, True, False]), [1, 2, 1])

    def test_no_failure_no_wait(self):
        self.assertEqual(waits([True, True]), [])
