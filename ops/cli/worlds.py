"""``tiltyard worlds``: starts nothing."""

from pathlib import Path

import click

from ops.cli.failures import BELOW, DONE
from ops.cli.output import Output, json_option


@click.group()
def worlds() -> None:
    """List, describe and verify worlds."""


@worlds.command("list")
@json_option
def list_worlds(out: Output) -> int:
    """List the shipped worlds."""
    from tiltyard.worlds.builtin import with_engine_tools
    from tiltyard.worlds.registry import worlds as shipped

    kinds = [with_engine_tools(one) for one in shipped().values()]
    out.value(
        {
            "worlds": [
                {
                    "name": one.name,
                    "description": one.description,
                    "templates": one.templates,
                    "tools": len(one.tools),
                }
                for one in kinds
            ]
        }
    )
    out.table(
        ("WORLD", "#TOOLS", "WHAT IT IS"), [(one.name, str(len(one.tools)), one.description) for one in kinds]
    )
    return DONE


@worlds.command(short_help="Describe a WORLD: its templates and its tools.")
@click.argument("name", metavar="WORLD")
@json_option
def describe(name: str, out: Output) -> int:
    """Describe a WORLD: its templates and every tool with its arguments."""
    from ops.cli.described import described, tool_lines, world

    kind = world(name)
    out.value(described(kind))
    out.show(f"{kind.name}: {kind.description}\ntemplates: {', '.join(kind.templates)}")
    for line in tool_lines(kind):
        out.show(line)
    return DONE


@worlds.command(short_help="Run recorded cases against a WORLD.")
@click.argument("name", metavar="WORLD")
@click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the world's data.",
)
@click.option(
    "--cases",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of cases, one JSON object a line.",
)
@json_option
def verify(name: str, data: Path, cases: Path, out: Output) -> int:
    """Run recorded cases against a WORLD and compare answers and end states; 1 when any differs."""
    from tiltyard.worlds.verify import run_verify

    found = run_verify(name, data, cases)
    mismatches = [one for result in found.results for one in result.mismatches]
    out.value(
        {
            "passed": found.passed,
            "total": len(found.results),
            "mismatches": [one.model_dump() for one in mismatches],
        }
    )
    for mismatch in mismatches:
        out.show(str(mismatch))
    out.show(found.summary)
    return DONE if found.ok else BELOW
