"""Grading from facts: contracts, process rules, efficiency, safety, and the score (docs/grading.md).

Graders are pure functions of the task, the sealed facts and the journal. What the agent says of itself is only
ever compared with them (I8).
"""

from tiltyard.graders.counts import count
from tiltyard.graders.digest import graders_digest
from tiltyard.graders.graph import grade_episode

__all__ = ["count", "grade_episode", "graders_digest"]
