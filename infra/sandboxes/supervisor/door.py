"""Where hosts come and go: the socket of a sandbox that outlives the host which asks it."""

from __future__ import annotations

import os

from infra.sandboxes.supervisor.loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

WAITING = 8  # hosts that have knocked: there is one, and perhaps one that was killed


class Door:
    """A socket at ``path``. ``enter`` is given the descriptor of whoever came."""

    def __init__(self, path: str, loop: Loop, enter: Callable[[int], None]) -> None:
        import _socket  # only where it is needed: most sandboxes end with their host

        self._enter = enter
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        others = os.umask(0o177)  # some kernels let nobody change or rename a socket that is there
        self._socket.bind(path)
        os.umask(others)
        self._socket.listen(WAITING)  # whoever knocks before is refused, and knocks again
        self._socket.setblocking(False)
        loop.on(self._socket.fileno(), self._open)

    def _open(self) -> None:
        try:
            fd, _ = self._socket._accept()  # type: ignore[attr-defined]  # typeshed knows the one of socket
        except OSError:
            return  # it has gone again
        os.set_inheritable(fd, False)
        self._enter(fd)
