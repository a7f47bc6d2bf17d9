"""Packing slips."""


def slip_for(order, slip=None):
    """The slip with a line for each (article, count) of the order; nothing is packed of a count of 0."""
    slip = [] if slip is None else slip
    for article, count in order:
        if count:
            slip.append(f"{count} x {article}")
    return slip
