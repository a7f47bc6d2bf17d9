"""What may stand on a command line: each kind refuses the rest in plain words."""

import math
from typing import Any

import click


class Whole(click.IntRange):
    """A whole number within limits."""

    name = "whole number"


class Share(click.FloatRange):
    """A number from 0 to 1."""

    name = "number"

    def __init__(self) -> None:
        super().__init__(0, 1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):  # it passes every comparison of a range
            self.fail(f"{value!r} is not in the range {self._describe_range()}.", param, ctx)
        return number


class Text(click.types.StringParamType):
    """A field of a message to an episode, with the limits of the message's model."""

    def __init__(self, message: str, field: str) -> None:
        self._message, self._field = message, field

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from pydantic import ValidationError  # heavy imports wait until a command runs

        from schemas import message

        try:
            getattr(message, self._message).model_validate({self._field: value})
        except ValidationError as error:
            self.fail(error.errors()[0]["msg"], param, ctx)
        return value


def only_one(_: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str:
    """For an option that might be taken to be repeatable: the only value."""
    if len(values) > 1:
        raise click.BadParameter(f"given {len(values)} times; give one, and run again for another", param=param)
    return values[0]


def at_most_one(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """The same, for an option that may be left out."""
    return only_one(ctx, param, values) if values else None
