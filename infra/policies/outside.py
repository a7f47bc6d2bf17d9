"""A policy that somebody else wrote, as the harness sees it: a view goes out as a line, a decision comes back."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from pydantic import ValidationError

from infra.policies.child import Launch
from infra.policies.children import Children
from schemas.base import canonical
from schemas.decision import Decision
from schemas.view import View
from tiltyard.errors import PolicyFailed

__all__ = ["OutsidePolicy", "decision_of"]

_MOST_ERRORS = 3


@dataclass(frozen=True)
class OutsidePolicy:
    """Implements ``tiltyard.ports.OpenPolicy`` with the episode's child process.

    Raises ``PolicyFailed`` when there is no valid decision within ``turn``. The child has then been ended.
    """

    episode_id: str
    launch: Launch
    turn: timedelta
    children: Children
    recording = None

    async def act(self, view: View) -> Decision:
        try:
            async with asyncio.timeout(self.turn.total_seconds()):
                answer = await self.children.ask(self.episode_id, self.launch, view)
        except TimeoutError:
            raise PolicyFailed(f"the policy gave no decision within {self.turn.total_seconds():g} s") from None
        try:
            return decision_of(answer)
        except PolicyFailed:
            self.children.retire(self.episode_id)
            raise

    async def close(self) -> None:
        await self.children.end(self.episode_id)


def decision_of(line: bytes) -> Decision:
    """Parse what a policy wrote. Raises ``PolicyFailed`` that names each field, what is wrong and what was read."""
    try:
        decision = Decision.model_validate_json(line)
        canonical(decision)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        more = f"; and {len(faults) - _MOST_ERRORS} more" if len(faults) > _MOST_ERRORS else ""
        said = "; ".join(_said(fault["loc"], fault["msg"]) for fault in faults[:_MOST_ERRORS])
        raise PolicyFailed(
            f"the policy's decision is not valid: {said}{more} (it wrote {_excerpt(line)})"
        ) from None
    except ValueError as error:
        raise PolicyFailed(f"the policy's decision is not valid: {error} (it wrote {_excerpt(line)})") from None
    return decision


def _said(where: tuple[int | str, ...], what: str) -> str:
    field = ".".join(str(part) for part in where)
    return f"{field}: {what}" if field else what


def _excerpt(line: bytes) -> str:
    return repr(line[:120].decode("utf-8", "replace")) + ("…" if len(line) > 120 else "")
