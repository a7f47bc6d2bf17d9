"""Questions to one sandbox's supervisor, and what it means when it does not answer them."""

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from infra.sandboxes import records
from infra.sandboxes.inside import Inside
from infra.sandboxes.launching import Launched
from infra.sandboxes.link import Link
from infra.sandboxes.patience import MISSES, Patience, until_silent
from infra.sandboxes.records import Kept
from schemas.sandbox import SandboxRef
from tiltyard.errors import SandboxLost, SandboxOutOfMemory, TiltyardError

M = TypeVar("M", bound=BaseModel)


class Supervised(ABC):
    """A sandbox with its record, and the way to its supervisor for as long as that lives."""

    def __init__(self, kept: Kept, folder: Path, patience: Patience, inside: Inside) -> None:
        self.kept, self.folder = kept, folder
        self._patience, self._inside = patience, inside
        self._launched: Launched | None = None
        self._link: Link | None = None
        self._survived = 0  # kills for want of memory that the supervisor has answered after
        self._undisturbed = 0  # questions that the supervisor answers before it hears of anything else
        self._why = "its supervisor has ended"

    @property
    def ref(self) -> SandboxRef:
        return self.kept.ref

    @abstractmethod
    async def lose(self, why: str) -> None:
        """It is lost from now on."""

    def now(self, **changes: object) -> None:
        """Change the record. Raises ``OSError`` when it cannot be written."""
        self._change(changes)
        records.write(self.folder, self.kept)

    def _change(self, changes: dict[str, object]) -> None:
        self.kept = Kept.model_validate({**self.kept.model_dump(), **changes})

    async def ask(self, do: str, beyond_s: float = 0, kills: int | None = None, **fields: Any) -> dict[str, Any]:
        """The supervisor's answer. ``kills`` have been for want of memory so far. Raises ``SandboxLost`` when it is
        gone, or has given none in time."""
        within_s = beyond_s + self._patience.answer_s
        link = self.require_there()
        kills = self._memory_kills() if kills is None else kills
        self._undisturbed += beyond_s <= 0
        try:
            async with asyncio.timeout(within_s) as limit:
                with self._inside.excusing(limit):
                    answer = await link.ask(do, **fields)
        except TimeoutError:
            await self.lose(why := self._blamed(f"its supervisor did not answer {do!r} within {within_s:g} s"))
            raise self._loss(why) from None
        finally:
            self._undisturbed -= beyond_s <= 0
        self._survived = max(self._survived, kills)
        return answer

    async def answer(self, kind: type[M], do: str, beyond_s: float = 0, **fields: Any) -> M:
        """The answer as a model."""
        return await self._read(kind, do, await self.ask(do, beyond_s, **fields))

    async def _read(self, kind: type[M], do: str, said: dict[str, Any]) -> M:
        """A supervisor that answers anything else is not trusted any more."""
        try:
            return kind.model_validate(said)
        except ValidationError as error:
            await self.lose(why := self._blamed(f"its supervisor answered {do!r} with what is no {kind.__name__}"))
            raise self._loss(why) from error

    def require_there(self) -> Link:
        """The way to its supervisor. Raises ``SandboxLost``."""
        if self.kept.state == "lost" or self._link is None:
            raise self._loss("its processes and files are gone")
        return self._link

    def _blamed(self, why: str) -> str:
        """Why it is lost by itself. What was killed for want of memory since the supervisor last answered may have
        been the supervisor, or what kept it from answering."""
        kills = self._memory_kills() - self._survived
        if self.kept.state == "lost" or kills <= 0:
            return why
        self._change({"memory_kills": kills})
        return f"{why}, after the kernel had ended {kills} processes in it for want of memory"

    def _loss(self, why: str) -> SandboxLost:
        kind = SandboxOutOfMemory if self.kept.memory_kills else SandboxLost
        return kind(f"{name_of(self.ref)} is lost: {why}")

    def _memory_kills(self) -> int:
        return self._launched.memory_kills() if self._launched else 0

    async def _lose_with(self, link: Link) -> None:
        """Lose it when its supervisor has hung up or fallen silent. What has a limit of its own may take that."""
        every_s = self._patience.ping_s
        silent = await until_silent(link, partial(self._ping, link), every_s, lambda: self._undisturbed > 0)
        await self.lose(self._blamed(f"no sign of life in {MISSES * every_s:g} s" if silent else self._why))

    async def _ping(self, link: Link) -> None:
        kills = self._memory_kills()
        with suppress(TiltyardError):  # a hang-up is seen as one
            await link.ask("ping")
            self._survived = max(self._survived, kills)


def name_of(ref: SandboxRef) -> str:
    return f"the sandbox {ref.name}/{ref.incarnation}"
