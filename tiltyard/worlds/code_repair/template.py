"""The starting state: the tickets that a task gives."""

from pydantic import Field, ValidationError, model_validator

from schemas.base import JsonObject
from tiltyard.errors import BadInput
from tiltyard.worlds.code_repair.tickets import Id, Text, Ticket
from tiltyard.worlds.kit import Entity, Template


class Reported(Entity):
    """An open ticket, as a task file gives it."""

    ticket_id: Id
    title: Text
    report: Text


class Params(Entity):
    """The parameters of the template ``default``."""

    tickets: tuple[Reported, ...] = Field(min_length=1, max_length=1000)

    @model_validator(mode="after")
    def _each_once(self) -> "Params":
        ids = [ticket.ticket_id for ticket in self.tickets]
        twice = sorted({one for one in ids if ids.count(one) > 1})
        if twice:
            raise ValueError(f"tickets: {twice[0]} is there twice")
        return self


def template(name: str, params: JsonObject) -> Template:
    """The starting state for ``params``. Raises ``BadInput`` that names the parameter."""
    if name != "default":
        raise BadInput(f"no template {name!r}", field="template.name", fix="the code-repair world has: default")
    try:
        given = Params.model_validate(params)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(("template", "params", *(str(part) for part in first["loc"])))
        message = first["msg"].removeprefix("Value error, ")
        raise BadInput(message, field=path, fix="see docs/worlds/code-repair.md") from None
    tickets = {one.ticket_id: Ticket(**one.model_dump()) for one in given.tickets}
    return Template.of({"tickets": tickets})
