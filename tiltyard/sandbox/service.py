"""A task's world as programs in its sandbox reach it: what their HTTP requests mean, and how outcomes are told.

``GET /`` lists the tools of a service. ``POST /TOOL`` with a JSON object calls one: 200 with the content; 4xx for
the caller's mistakes, and 5xx for faults of the service that the task plans. A planned lost reply is a gateway's
timeout.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from schemas.base import JsonObject, canonical
from schemas.sandbox import WORLD_SUFFIX, WorldAccess
from schemas.world import TOO_MANY_JOBS, DeliveryReply, DeliveryRequest
from tiltyard.episode.delivery import Reconciler
from tiltyard.errors import BadInput, DeliveryConflict, LateWrite
from tiltyard.ports import World
from tiltyard.worlds.arguments import ARGUMENTS, wire_form

STATUS: Mapping[str, int] = {
    "bad_arguments": 400,
    "not_found": 404,
    "unknown_tool": 404,
    "tool_failed": 500,
    TOO_MANY_JOBS: 503,
}
"""HTTP status of an error, by its code."""

LISTED = {"name", "description", "parameters", "writes"}
"""What is told of a tool."""

REFUSED, PLANNED, TIMEOUT = 422, 503, 504
"""Of any other refusal of a tool; of an error that the task plans; of a reply that it has lost."""


@dataclass(frozen=True)
class Asked:
    """A request of a program. ``delivery_id`` is the harness's for it, whatever comes of it; ``elsewhere_s`` the
    virtual time that the episode has spent outside its world so far, in all."""

    host: str
    method: str
    path: str
    body: bytes
    delivery_id: str
    elsewhere_s: int = 0


@dataclass(frozen=True)
class Response:
    """The answer. ``took_s`` are the real seconds that the world needed for it; what went before was lost.

    ``now_s`` is the world's clock after a call that it has taken, ``elsewhere_s`` what that had made up for.
    """

    status: int
    body: bytes
    took_s: float = 0
    now_s: int | None = None
    elsewhere_s: int = 0


class WorldService:
    """Answers for a world. Calls of one sandbox come one after the other."""

    def __init__(self, world: World, reconciler: Reconciler) -> None:
        self._world, self._reconciler = world, reconciler

    async def answer(
        self, access: WorldAccess, incarnation: int, exposes: Mapping[str, Sequence[str]], asked: Asked
    ) -> Response:
        """The answer. Raises ``WorldUnreachable`` past the deadline: the same may be asked again."""
        service = asked.host.removesuffix(WORLD_SUFFIX)
        tools = exposes.get(service) if asked.host.endswith(WORLD_SUFFIX) else None
        if tools is None:
            known = ", ".join(f"{name}{WORLD_SUFFIX}" for name in exposes)
            return _refusal(404, "no_such_service", f"nothing is served as {asked.host[:100]}; ask {known}")
        tool = asked.path.removeprefix("/")
        if not tool:
            return await self._listing(access.world, tools, asked)
        if tool not in tools:
            message = f"there is no tool {tool[:100]!r}; POST to one of /{', /'.join(tools)}"
            return _refusal(404, "unknown_tool", message)
        if asked.method != "POST":
            return _refusal(405, "method_not_allowed", f"POST a JSON object to /{tool}")
        arguments = _arguments(asked.body)
        if arguments is None:
            return _refusal(400, "bad_arguments", "the body is not a JSON object; send the tool's arguments as one")
        return await self._call(access, incarnation, tool, arguments, asked)

    async def _listing(self, world: str, tools: Sequence[str], asked: Asked) -> Response:
        if asked.method not in ("GET", "HEAD"):
            return _refusal(405, "method_not_allowed", "GET / lists the tools; POST to /TOOL calls one")
        known = await self._reconciler.until_reply(lambda: self._world.describe(world))
        told = [tool.model_dump(mode="json", include=LISTED) for tool in known if tool.name in tools]
        return Response(200, canonical({"tools": told}))

    async def _call(
        self, access: WorldAccess, incarnation: int, tool: str, arguments: JsonObject, asked: Asked
    ) -> Response:
        request = DeliveryRequest(
            namespace=access.namespace,
            generation=access.generation,
            delivery_id=asked.delivery_id,
            tool=tool,
            arguments=arguments,
            elsewhere_s=asked.elsewhere_s,
            incarnation=incarnation,
        )
        began = time.monotonic()
        try:
            reply, lost_s = await self._reconciler.deliver(request)
        except LateWrite:
            return _refusal(410, "late", "the episode has ended, or goes on in another sandbox")
        except BadInput as error:
            return _refusal(400, "bad_arguments", str(error))
        except DeliveryConflict as error:
            return _refusal(409, "conflict", str(error))
        took_s = time.monotonic() - began - lost_s
        return Response(*_shown(reply), took_s=took_s, now_s=reply.now_s, elsewhere_s=reply.elsewhere_s)


def _shown(reply: DeliveryReply) -> tuple[int, bytes]:
    """Status and body of an outcome."""
    shown = reply.shown
    if shown.status == "ok":
        return 200, canonical(shown.content)
    told = canonical({"code": shown.code or shown.status, "message": shown.message})
    if shown.status == "timeout":
        return TIMEOUT, told
    return PLANNED if reply.fault == "error_status" else STATUS.get(shown.code, REFUSED), told


def _refusal(status: int, code: str, message: str) -> Response:
    return Response(status, canonical({"code": code, "message": message}))


def _arguments(body: bytes) -> JsonObject | None:
    """``None`` for what is no JSON object, or could not be sent on as one: no number, for one, is infinite."""
    try:
        arguments = ARGUMENTS.validate_json(body or b"{}")
        wire_form(arguments)
    except (BadInput, ValidationError, ValueError, RecursionError):
        return None
    return arguments
