"""The code-repair world, put together."""

from tiltyard.worlds.code_repair.template import template
from tiltyard.worlds.code_repair.tickets import close_ticket, get_ticket
from tiltyard.worlds.kit import WorldKind

WORLD = WorldKind.of(
    name="code-repair",
    description="A ticket desk for faults in small programs; the programs themselves lie in the sandbox.",
    tools=(get_ticket, close_ticket),
    template=template,
)
