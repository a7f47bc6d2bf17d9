"""Converting prices."""

from quotes.table import look_up

_kept = {}


def rate(source, target):
    """What 100 of ``source`` are in ``target``."""
    if source == target:
        return 100
    if source not in _kept:
        _kept[source] = look_up(source, target)
    return _kept[source]


def convert(cents, source, target):
    """An amount in another currency."""
    return cents * rate(source, target) // 100
