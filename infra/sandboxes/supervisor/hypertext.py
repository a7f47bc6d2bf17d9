"""Requests of HTTP/1.1 as programs in the sandbox send them, and answers: framing alone, of a strict kind.

What could be read in two ways is refused: a second length, chunks, folded or nameless headers, lines without their
carriage return.
"""

from __future__ import annotations

from infra.sandboxes.supervisor.limits import MAX_HTTP_BODY_BYTES, MAX_HTTP_HEAD_BYTES
from infra.sandboxes.supervisor.messages import dumps

GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"

REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 409: "Conflict", 410: "Gone",
    413: "Content Too Large", 422: "Unprocessable Content", 429: "Too Many Requests",
    431: "Request Header Fields Too Large", 500: "Internal Server Error", 501: "Not Implemented",
    502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
}  # fmt: skip

NAME_CHARACTERS = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class Malformed(Exception):
    """What came is no request; the connection ends with this answer, for nobody knows where the next one begins."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class HttpRequest:
    """One request. ``last``: nothing else is to be sent on its connection."""

    __slots__ = ("body", "host", "last", "method", "path")

    def __init__(self, method: str, path: str, host: str, last: bool) -> None:
        self.method, self.path, self.host, self.last = method, path, host, last
        self.body = b""


class HttpRequests:
    """Requests put together from the pieces in which they come."""

    def __init__(self) -> None:
        self._in = bytearray()
        self._request: HttpRequest | None = None  # whose body is still to come
        self._length = 0
        self.must_go_on = False  # whoever sends waits to be told so
        self.is_broken = False  # there was a request that was none

    def feed(self, data: bytes) -> None:
        self._in += data

    def next(self) -> HttpRequest | None:
        """The next one that is whole. Raises ``Malformed``."""
        try:
            if self._request is None and not self._read_head():
                return None
        except Malformed:
            self.is_broken = True
            raise
        request = self._request
        if request is None or len(self._in) < self._length:
            return None
        request.body = bytes(self._in[: self._length])
        del self._in[: self._length]
        self._request, self.must_go_on = None, False
        return request

    def _read_head(self) -> bool:
        end = self._in.find(b"\r\n\r\n", 0, MAX_HTTP_HEAD_BYTES)
        if end < 0:
            if len(self._in) >= MAX_HTTP_HEAD_BYTES:
                raise Malformed(431, f"the headers have more than {MAX_HTTP_HEAD_BYTES} bytes")
            return False
        head = bytes(self._in[:end])
        del self._in[: end + 4]
        first, *lines = head.split(b"\r\n")
        headers = headers_of(lines)
        method, path, version = line_of(first)
        last = version == b"HTTP/1.0" or headers.get(b"connection", b"").lower() == b"close"
        self._request = HttpRequest(method, path, host_of(headers), last)
        self._length = length_of(headers)
        self.must_go_on = self._length > len(self._in) and headers.get(b"expect", b"").lower() == b"100-continue"
        return True


def line_of(line: bytes) -> tuple[str, str, bytes]:
    """(method, path, version) of a request's first line."""
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[0].isalpha() or not parts[0].isupper():
        raise Malformed(400, "the first line is no METHOD PATH HTTP/1.1")
    method, path, version = parts
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise Malformed(400, "this is HTTP/1.1 only")
    if not path.startswith(b"/") or not all(32 < byte < 127 for byte in path):
        raise Malformed(400, "the path does not begin with /, or has characters that no path has")
    return method.decode(), path.decode(), version


def headers_of(lines: list[bytes]) -> dict[bytes, bytes]:
    """Headers by their names in lower case; each once."""
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or not NAME_CHARACTERS.issuperset(name):
            raise Malformed(400, "a header is no NAME: VALUE")
        if any(byte < 32 and byte != 9 for byte in value):
            raise Malformed(400, "a header holds a control character")
        name = name.lower()
        if name in headers and name in (b"host", b"content-length", b"transfer-encoding"):
            raise Malformed(400, f"there are two headers {name.decode()}")
        headers[name] = value.strip(b" \t")
    return headers


def host_of(headers: dict[bytes, bytes]) -> str:
    """Whom it is for, without the port."""
    host = headers.get(b"host", b"")
    name, _, port = host.partition(b":")
    if not name or not NAME_CHARACTERS.issuperset(name) or port not in (b"", b"80"):
        raise Malformed(400, "the header host names nobody here")
    return name.decode().lower()


def length_of(headers: dict[bytes, bytes]) -> int:
    if b"transfer-encoding" in headers:
        raise Malformed(501, "a body has a content-length here, and is sent in one piece")
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        raise Malformed(400, "content-length is no number")
    if len(length) > 12 or int(length) > MAX_HTTP_BODY_BYTES:
        raise Malformed(413, f"a body has at most {MAX_HTTP_BODY_BYTES} bytes")
    return int(length)


def http_answer(status: int, body: bytes, last: bool = False, headless: bool = False) -> bytes:
    """An answer with a JSON body; of a ``headless`` request's the body is left out."""
    head = f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n" + ("Connection: close\r\n" if last else "") + "\r\n"
    return head.encode("ascii") + (b"" if headless else body)


def http_refusal(code: str, message: str) -> bytes:
    """The body of an answer that says why not."""
    return dumps({"code": code, "message": message}).encode("ascii")
