"""Several replays of one episode together: how many agree with it, and whether they agree among themselves."""

from collections.abc import Sequence

from schemas.replay import Outcome, Tally, Verdict


def tally_of(episode: str, verdicts: Sequence[Verdict], failed: int) -> Tally:
    """What they come to; the most frequent outcome first."""
    agree = sum(not one.diverged for one in verdicts)
    return Tally(
        episode=episode,
        times=len(verdicts) + failed,
        agree=agree,
        diverged=len(verdicts) - agree,
        failed=failed,
        flaky=len({one.digests["replay"].trace for one in verdicts if one.digests}) > 1,
        outcomes=tuple(sorted(_outcomes(verdicts), key=lambda one: -len(one.replays))),
    )


def _outcomes(verdicts: Sequence[Verdict]) -> list[Outcome]:
    alike: dict[tuple[object, ...], list[Verdict]] = {}
    for one in verdicts:
        alike.setdefault((one.diverged, one.turn, one.call, one.what, one.cause), []).append(one)
    return [
        Outcome(
            replays=tuple(one.replay for one in some),
            diverged=some[0].diverged,
            turn=some[0].turn,
            call=some[0].call,
            what=some[0].what,
            cause=some[0].cause,
        )
        for some in alike.values()
    ]
