"""Packing slips."""


def slip_for(order, slip=[]):
    """The slip with a line for each (article, count) of the order; nothing is packed of a count of 0."""
    for article, count in order:
        if count:
            slip.append(f"{count} x {article}")
    return slip
