"""Content-addressed objects in memory."""

from schemas.base import sha256
from tiltyard.errors import EnvironmentFailed

__all__ = ["MemoryObjects"]


class MemoryObjects:
    """Implements ``tiltyard.ports.Objects``.

    ``contents`` is open to tests: take an object away or change it, and ``get`` must notice.
    """

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        name = sha256(data)
        self.contents[name] = bytes(data)
        return name

    async def get(self, name: str) -> bytes:
        data = self.contents.get(name)
        if data is None:
            raise EnvironmentFailed(f"object {name} is missing")
        if sha256(data) != name:
            raise EnvironmentFailed(f"object {name} does not hold the bytes that it is named after")
        return data
