"""``tiltyard demo``: the main job on shipped tasks, in a data folder of its own."""

from pathlib import Path

import click

from ops.cli.failures import DONE, FAILED
from ops.cli.output import Output, json_option


@click.command()
@click.pass_obj
@json_option
def demo(home: Path | None, out: Output) -> int:
    """Run the main job: policies that lose replies, a worker that is killed, and facts that stay right.

    It works in the folder `demo` of the data folder and leaves nothing running, unless a stack was up there.
    """
    import asyncio

    from infra.local.paths import StackPaths
    from infra.local.stack import look, take_down
    from ops.cli.called import call_on
    from ops.cli.showing import show
    from workers.settings import Settings

    folder = Settings.from_environment(home).home / "demo"
    call_on(folder)
    was_up = look(StackPaths(folder)) is not None
    try:
        held = asyncio.run(show(folder, home, out))
    finally:
        if not was_up:
            take_down(StackPaths(folder), out.note)
    return DONE if held else FAILED
