"""``tiltyard policies``: starts nothing."""

from typing import TYPE_CHECKING

import click

from ops.cli.failures import DONE
from ops.cli.output import Output, json_option

if TYPE_CHECKING:
    from tiltyard.policies.catalogue import Shipped

OWN = """\
Your own: --policy module:object is Python, --policy 'exec:COMMAND' is any language. Both run in the folder that you
are in, in a process of their own; docs/policies.md has the protocol and ten-line examples."""


@click.group()
def policies() -> None:
    """List the shipped policies."""


@policies.command("list")
@json_option
def list_policies(out: Output) -> int:
    """List the shipped policies by name, and how to bring your own."""
    from tiltyard.policies.catalogue import SCRIPTS

    out.value(
        {
            "policies": [
                {
                    "name": name,
                    "description": one.description,
                    "needs_solution": one.needs_solution,
                    "needs_sandbox": one.needs_sandbox,
                }
                for name, one in SCRIPTS.items()
            ]
        }
    )
    out.table(("POLICY", "WHAT IT DOES"), [(name, _told(one)) for name, one in SCRIPTS.items()])
    out.show(OWN)
    return DONE


def _told(script: "Shipped") -> str:
    return script.description + (" (needs a sandbox)" if script.needs_sandbox else "")
