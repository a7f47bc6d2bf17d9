"""The replacement world, put together."""

from tiltyard.worlds.kit import WorldKind
from tiltyard.worlds.replacement.jobs import JOBS
from tiltyard.worlds.replacement.reads import READS
from tiltyard.worlds.replacement.template import template
from tiltyard.worlds.replacement.writes import WRITES

WORLD = WorldKind.of(
    name="replacement",
    description="A service desk that replaces failed devices under approvals, through an order service that can "
    "accept an order and lose the reply.",
    tools=READS + WRITES,
    template=template,
    jobs=JOBS,
)
