"""Waiting longer and longer."""

FIRST = 1
LONGEST = 60


class Backoff:
    """Seconds to wait after each failure in a row."""

    def __init__(self):
        self._wait = FIRST
        self.failures = 0

    def failed(self):
        """An attempt has failed: how long to wait before the next."""
        wait = self._wait
        self.failures += 1
        self._wait = min(self._wait * 2, LONGEST)
        return wait

    def succeeded(self):
        """An attempt has succeeded."""
        self.failures = 0
