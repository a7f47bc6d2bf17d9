"""What runs in the child process of a policy: ``python -m tiltyard.policies.runner PARENT module|exec TARGET…``.

It needs the standard library alone, so that a policy's own packages cannot get in its way. The protocol is in
``docs/policies.md``.
"""

import asyncio
import dataclasses
import importlib
import inspect
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import IO, Any

from tiltyard.policies.guardian import guard

__all__ = ["act_of", "load", "main", "plain"]

Act = Callable[[dict[str, Any]], Any]


def main(arguments: list[str]) -> None:
    parent, kind, *target = arguments
    guard(int(parent))
    if kind == "exec":
        run_command(target)
    else:
        serve(target[0])


def run_command(words: list[str]) -> None:
    """Become the program. The policy's directory is the current one."""
    try:
        os.execvp(words[0], words)  # noqa: S606 the words were split by the caller; no shell is wanted
    except OSError as error:
        sys.exit(f"cannot start {words[0]!r}: {error.strerror}")


def serve(target: str) -> None:
    """Answer view after view until the worker closes the pipe. What the policy raises ends the process."""
    requests, replies = claim_pipes()
    sys.path.insert(0, os.getcwd())
    act = load(target)
    with asyncio.Runner() as runner:
        for line in requests:
            message = json.loads(line)
            if message["type"] != "act":
                raise ValueError(f"message of unknown type {message['type']!r}")
            decision = act(message["view"])
            if inspect.isawaitable(decision):
                decision = runner.run(_awaited(decision))
            replies.write(json.dumps(plain(decision), ensure_ascii=False).encode() + b"\n")
            replies.flush()


def claim_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Take the protocol's pipes away from standard input and output.

    What the policy prints goes to standard error, and it can read nothing that is meant for the runner.
    """
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return requests, replies


def load(target: str) -> Act:
    """The ``act`` of ``module:object``. Raises whatever importing or making the object raises."""
    module, _, path = target.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return act_of(found)


def act_of(found: Any) -> Act:
    """``act`` of an object, a class or a factory without arguments; or the function ``act(view)`` itself."""
    is_factory = callable(found) and not hasattr(found, "act") and not _takes_a_view(found)
    if inspect.isclass(found) or is_factory:
        found = found()
    act = getattr(found, "act", found)
    if not callable(act):
        raise TypeError(f"{type(found).__name__} is no policy: it has no act(view)")
    return act  # type: ignore[no-any-return]  # an outsider's object: its decisions are checked by the worker


def _takes_a_view(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind({})
    except TypeError:
        return False
    return True


async def _awaited(decision: Awaitable[Any]) -> Any:
    return await decision


def plain(decision: Any) -> Any:
    """A decision as plain JSON values: a dict, a dataclass or a pydantic model."""
    if hasattr(decision, "model_dump"):
        return decision.model_dump(mode="json")
    if dataclasses.is_dataclass(decision) and not isinstance(decision, type):
        return dataclasses.asdict(decision)
    if isinstance(decision, dict):
        return decision
    raise TypeError(f'act returned {type(decision).__name__}; return a dict such as {{"submit": {{}}}}')


if __name__ == "__main__":
    main(sys.argv[1:])
