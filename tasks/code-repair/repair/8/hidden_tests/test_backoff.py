import itertools
import unittest

from sync.backoff import Backoff
from sync.plan import waits


class TestBackoff(unittest.TestCase):
    def test_every_run_of_seven_attempts(self):
        for outcomes in itertools.product([True, False], repeat=7):
            wanted, row = [], 0
            for succeeded in outcomes:
                row = 0 if succeeded else row + 1
                if row:
                    wanted.append(min(2 ** (row - 1), 60))
            self.assertEqual(waits(outcomes), wanted, outcomes)

    def test_anew_after_the_longest_wait(self):
        self.assertEqual(waits([False] * 9 + [True] + [False] * 2)[-2:], [1, 2])

    def test_two_runs_have_nothing_in_common(self):
        one, other = Backoff(), Backoff()
        one.failed()
        one.failed()
        self.assertEqual(other.failed(), 1)

    def test_failures_in_a_row_are_counted(self):
        backoff = Backoff()
        backoff.failed()
        backoff.failed()
        self.assertEqual(backoff.failures, 2)
        backoff.succeeded()
        self.assertEqual(backoff.failures, 0)
