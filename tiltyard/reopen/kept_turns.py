"""Turns that a fork has of others, where all of them are played again from turn 0, by its own task and seed."""

from schemas.episode import EpisodeSpec
from tiltyard.ports import Records


async def of_another(spec: EpisodeSpec, records: Records) -> str:
    """What to do about first turns that were played by another task or seed, such as other faults: by the episode's
    own they may come to something else. Empty where there are none."""
    kept, parent = spec.kept_turns, spec
    while kept and parent.origin is not None:
        found = await records.spec(parent.origin.episode_id)
        if found is None:
            return ""
        if (found.task_digest, found.seed) != (spec.task_digest, spec.seed):
            return _advice(kept, found.episode_id)
        kept, parent = min(kept, found.kept_turns), found
    return ""


def _advice(turns: int, episode_id: str) -> str:
    whose = "its first turn is that" if turns == 1 else f"its first {turns} turns are those"
    return (
        f"{whose} of {episode_id}, which has another task or seed, and here all are played by its own: run its own "
        "task and seed from turn 0, and name that episode"
    )
