"""The framing of HTTP that programs in a sandbox speak with the supervisor."""

import pytest

from infra.sandboxes.supervisor.hypertext import HttpRequests, Malformed, http_answer
from infra.sandboxes.supervisor.limits import MAX_HTTP_BODY_BYTES, MAX_HTTP_HEAD_BYTES

POST = b"POST /add HTTP/1.1\r\nHost: tally.world\r\nContent-Length: 2\r\n\r\n{}"


def read(*pieces: bytes) -> list[tuple[str, str, str, bytes, bool]]:
    """All requests that are whole after these pieces."""
    requests, found = HttpRequests(), []
    for piece in pieces:
        requests.feed(piece)
        while (one := requests.next()) is not None:
            found.append((one.method, one.path, one.host, one.body, one.last))
    return found


def test_a_request_is_read_whatever_pieces_it_comes_in() -> None:
    whole = ("POST", "/add", "tally.world", b"{}", False)
    assert read(POST) == [whole]
    assert read(*(bytes([byte]) for byte in POST)) == [whole]
    assert read(POST[:-1]) == []


def test_requests_behind_one_another_are_read_one_by_one() -> None:
    get = b"GET / HTTP/1.1\r\nhost: TALLY.world:80\r\nConnection: close\r\n\r\n"
    assert [one[0] for one in read(POST * 3 + get)] == ["POST", "POST", "POST", "GET"]
    assert read(get) == [("GET", "/", "tally.world", b"", True)]
    assert read(POST.replace(b"HTTP/1.1", b"HTTP/1.0"))[0][-1] is True


def test_a_body_that_looks_like_a_request_is_a_body() -> None:
    hidden = b"POST /add HTTP/1.1\r\nHost: tally.world\r\nContent-Length: 0\r\n\r\n"
    outer = b"POST /read HTTP/1.1\r\nHost: tally.world\r\nContent-Length: %d\r\n\r\n" % len(hidden)
    assert [(path, body) for _, path, _, body, _ in read(outer + hidden)] == [("/read", hidden)]


def test_who_waits_to_be_told_to_go_on_is_told() -> None:
    requests = HttpRequests()
    requests.feed(POST.replace(b"\r\n\r\n{}", b"\r\nExpect: 100-continue\r\n\r\n"))
    assert requests.next() is None
    assert requests.must_go_on
    requests.feed(b"{}")
    assert requests.next() is not None
    assert not requests.must_go_on


def head(*lines: bytes, first: bytes = b"POST /add HTTP/1.1") -> bytes:
    return b"\r\n".join((first, *lines, b"", b""))


HOST = b"Host: tally.world"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(head(HOST, b"Content-Length: 2", b"Content-Length: 30"), 400, id="two lengths"),
        pytest.param(head(HOST, b"Content-Length: 2", b"content-length: 2"), 400, id="two equal lengths"),
        pytest.param(head(HOST, b"Content-Length: 2", b"Transfer-Encoding: chunked"), 501, id="length and chunks"),
        pytest.param(head(HOST, b"Transfer-Encoding: chunked"), 501, id="chunks"),
        pytest.param(head(HOST, b"Transfer-Encoding: identity"), 501, id="another coding"),
        pytest.param(head(HOST, b"Content-Length: +2"), 400, id="signed length"),
        pytest.param(head(HOST, b"Content-Length: 2, 2"), 400, id="list of lengths"),
        pytest.param(head(HOST, "Content-Length: ²".encode()), 400, id="no ASCII digit"),
        pytest.param(head(HOST, b"Content-Length: %d" % (MAX_HTTP_BODY_BYTES + 1)), 413, id="too long"),
        pytest.param(head(HOST, b"Content-Length: " + b"9" * 5000), 413, id="a number of 5000 digits"),
        pytest.param(head(HOST, b"Content-Length : 2"), 400, id="blank behind a name"),
        pytest.param(head(HOST, b" Content-Length: 2"), 400, id="folded"),
        pytest.param(head(HOST, b"X: a\x00b"), 400, id="zero byte"),
        pytest.param(head(HOST, b"X: a\nContent-Length: 5"), 400, id="bare line feed"),
        pytest.param(head(HOST, b"X: a\rContent-Length: 5"), 400, id="bare carriage return"),
        pytest.param(head(HOST, b"nothing"), 400, id="no colon"),
        pytest.param(head(), 400, id="no host"),
        pytest.param(head(HOST, b"Host: other.world"), 400, id="two hosts"),
        pytest.param(head(b"Host: tally.world:8080"), 400, id="another port"),
        pytest.param(head(b"Host: a b"), 400, id="no name"),
        pytest.param(head(HOST, first=b"POST http://tally.world/add HTTP/1.1"), 400, id="a proxy's form"),
        pytest.param(head(HOST, first=b"POST /a b HTTP/1.1"), 400, id="a blank in the path"),
        pytest.param(head(HOST, first="POST /\xe9 HTTP/1.1".encode()), 400, id="no ASCII path"),
        pytest.param(head(HOST, first=b"POST /add HTTP/2.0"), 400, id="another version"),
        pytest.param(head(HOST, first=b"POST /add"), 400, id="no version"),
        pytest.param(head(HOST, first=b"post /add HTTP/1.1"), 400, id="lower-case method"),
        pytest.param(b"\x16\x03\x01\x02\x00" + b"\r\n\r\n", 400, id="TLS"),
        pytest.param(head(HOST, b"X: " + b"x" * MAX_HTTP_HEAD_BYTES), 431, id="endless headers"),
        pytest.param(b"x" * MAX_HTTP_HEAD_BYTES, 431, id="endless line"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(sent: bytes, status: int) -> None:
    requests = HttpRequests()
    requests.feed(sent + b"POST /add HTTP/1.1\r\n")
    with pytest.raises(Malformed) as refused:
        requests.next()
    assert refused.value.status == status
    assert requests.is_broken


def test_an_answer_says_how_long_it_is_and_whether_it_is_the_last() -> None:
    assert http_answer(504, b"{}") == (
        b"HTTP/1.1 504 Gateway Timeout\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert b"Connection: close\r\n\r\n{}" in http_answer(200, b"{}", last=True)
    assert http_answer(405, b"{}", headless=True).endswith(b"Content-Length: 2\r\n\r\n")
