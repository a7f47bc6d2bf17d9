"""The program ``tiltyard``. Commands are loaded when they are used, so that ``--help`` answers at once."""

import io
import os
import sys
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NoReturn

import click

from ops.cli.called import call_on
from ops.cli.failures import Crashed, Unread, crash, pipes_told, report
from ops.cli.home import home_option
from tiltyard.errors import StackFailed, TiltyardError

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("ops.cli.demo:demo", "Run the main job: lost replies and killed workers, and nothing lost."),
    "run": ("ops.cli.run:run", "Run tasks with a policy and print the graded results."),
    "episodes": ("ops.cli.episodes:episodes", "List, show, watch and steer episodes."),
    "regrade": ("ops.cli.regrading:regrade", "Grade stored facts again, old and new side by side."),
    "replay": (
        "ops.cli.replay:replay",
        "Make an episode's decisions again: does the same happen, and if not, why?",
    ),
    "fork": ("ops.cli.fork:fork", "Go on from a turn of an episode with another policy, seed or budget."),
    "tasks": ("ops.cli.tasks:tasks", "List, show and check tasks."),
    "import": ("ops.cli.importing:importing", "Import public benchmarks as tasks."),
    "policies": ("ops.cli.policies:policies", "List the shipped policies."),
    "worlds": ("ops.cli.worlds:worlds", "List, describe and verify worlds."),
    "images": ("ops.cli.images:images", "Build and list the images of Docker sandboxes."),
    "up": ("ops.cli.stack:up", "Start the stack and keep it until `down`."),
    "down": ("ops.cli.stack:down", "End the stack; running episodes go on at the next start."),
    "status": ("ops.cli.stack:status", "Say what runs."),
    "doctor": ("ops.cli.stack:doctor", "Find what is wrong and say how to mend it."),
    "histories": ("ops.cli.histories:histories", "Replay what workflows decided: may this code be deployed?"),
    "logs": ("ops.cli.stack:logs", "Print the logs of the stack's processes."),
}
"""Every command: where it is, and its line in the help."""


class Program(click.Group):
    """A group that imports a command's module only to run that command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        close = [] if args[0] in COMMANDS else get_close_matches(args[0], COMMANDS, n=1)
        if close:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with pipes_told():  # help is printed here
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with pipes_told():
                code = super().invoke(ctx)
                sys.stdout.flush()
                return code
        except (TiltyardError, click.ClickException, click.exceptions.Exit, click.Abort, Unread):
            raise
        except Exception as error:
            raise locked_out(error, ctx.obj) or _crashed(error, ctx.obj) from error


def locked_out(error: Exception, home: Path | None) -> StackFailed | None:
    """Whichever command it is and whatever it looks for: a data folder that is closed to us."""
    if not isinstance(error, PermissionError) or error.filename is None:
        return None
    from workers.environment import data_folder

    folder = data_folder(home)
    if not Path(os.fsdecode(error.filename)).is_relative_to(folder):
        return None
    why = f"{error.filename}: {error.strerror}"
    return StackFailed(f"the data folder {folder} cannot be used ({why}): choose another one with --home")


def _crashed(error: Exception, home: Path | None) -> Crashed:
    try:
        from workers.environment import data_folder

        log = data_folder(home) / "logs" / "command.log"
    except Exception:  # whatever is wrong may be wrong here too: then there is no log
        log = None
    return crash(error, log)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@home_option(help="The data folder (default: TILTYARD_HOME, else the user's data folder).")
@click.version_option(metadata.version("tiltyard"), prog_name="tiltyard")
@click.pass_context
def program(ctx: click.Context, home: Path | None) -> None:
    """A durable training and evaluation ground for AI agents.

    Exit codes: 0 done, 1 done and below the asked threshold, 2 wrong use or bad input, 3 the environment
    failed, 130 interrupted, 141 the reader of a pipe left.
    """
    ctx.obj = home
    call_on(home)


def run_program(arguments: list[str]) -> int:
    """Run one command line; its exit code."""
    try:
        return int(program.main(arguments, prog_name="tiltyard", standalone_mode=False) or 0)
    except BaseException as error:  # rendered in one place
        return report(error)


def main() -> None:
    """The entry point."""
    for stream in (sys.stdout, sys.stderr):  # a locale that lacks a character is no reason to fail
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    leave(run_program(sys.argv[1:]))


def leave(code: int) -> NoReturn:
    """End the process. One that has talked to Temporal ends at once: threads of the SDK that still wait for a
    server that is gone can keep an interpreter from being taken down."""
    if "temporalio" in sys.modules:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it any more
                stream.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
