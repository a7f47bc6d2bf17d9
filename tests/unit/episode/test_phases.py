"""What the phases of an episode's end took."""

from contextlib import suppress

from tiltyard.episode.phases import PhaseClock


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_times_of_a_phase_add_up_and_count_where_it_fails() -> None:
    hand = Hand()
    took = PhaseClock(hand)
    for seconds in (1.0, 0.2504):
        with took.phase("seal"):
            hand.at += seconds
    hand.at += 100
    with suppress(ValueError), took.phase("drain"):
        hand.at += 2
        raise ValueError
    assert took.timings == {"seal": 1.25, "drain": 2}
