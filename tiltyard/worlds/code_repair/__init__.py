"""The code-repair world: a ticket desk beside a small project with a fault."""
