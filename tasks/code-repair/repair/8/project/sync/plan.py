"""A whole run."""

from sync.backoff import Backoff


def waits(outcomes):
    """The wait after each failed attempt; ``outcomes`` says of each attempt whether it succeeded."""
    backoff, found = Backoff(), []
    for succeeded in outcomes:
        if succeeded:
            backoff.succeeded()
        else:
            found.append(backoff.failed())
    return found
