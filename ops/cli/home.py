"""The option ``--home``, which may stand before the command or after it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ops.cli.called import call_on

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Home(click.Path):
    """A data folder. No name is not the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value):
            self.fail("the name is empty; name a folder, or leave the option out", param, ctx)
        return super().convert(value, param, ctx)


def home_option(**options: Any) -> Callable[[Decorated], Decorated]:
    """The option as the program and its commands have it."""
    return click.option("--home", type=Home(path_type=Path, file_okay=False), **options)


def take_home(ctx: click.Context, _: click.Parameter, home: Path | None) -> None:
    """The data folder for everything that reads it from the context: this command, and what reports its end."""
    if home is not None:
        ctx.find_root().obj = ctx.obj = home
        call_on(home)
