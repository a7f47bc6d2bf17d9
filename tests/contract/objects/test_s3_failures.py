"""What S3 services answer when something is wrong, and what we make of it."""

import asyncio
import hashlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta

import pytest

from infra.stores.s3_objects import THREADS, S3Objects
from infra.stores.s3_place import S3Place
from schemas.base import sha256
from tests.contract.objects.scripted_s3 import SILENCE, Answer, ScriptedS3, refusal, scripted_s3
from tiltyard.errors import BadInput, EnvironmentFailed, ObjectsUnreachable

DATA = b"content"
NAME = sha256(DATA)
MISSING = Answer(404)
THERE = Answer(
    200,
    headers={
        "ETag": f'"{hashlib.md5(DATA).hexdigest()}"',
        "Content-Length": str(len(DATA)),
        "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT",
    },
)
IMPATIENT, PATIENT = timedelta(0), timedelta(seconds=60)


@contextmanager
def objects_of(script: ScriptedS3, patience: timedelta = IMPATIENT) -> Iterator[S3Objects]:
    with closing(S3Objects(script.place, patience=patience)) as objects:
        yield objects


async def test_what_is_there_is_not_sent_again() -> None:
    with scripted_s3(THERE) as script, objects_of(script) as objects:
        await objects.put(DATA)
    assert script.asked == ["HEAD"]


@pytest.mark.parametrize(
    "changed", [{"ETag": '"0"'}, {"Content-Length": "3"}, {"ETag": '"0123456789abcdef-2"'}], ids=str
)
async def test_what_is_there_with_another_size_or_digest_is_sent(changed: dict[str, str]) -> None:
    other = Answer(200, headers={**THERE.headers, **changed})
    with scripted_s3(other, Answer()) as script, objects_of(script) as objects:
        await objects.put(DATA)
    assert script.asked == ["HEAD", "PUT"]


async def test_one_who_may_not_list_can_write() -> None:
    with scripted_s3(Answer(403), Answer()) as script, objects_of(script) as objects:
        await objects.put(DATA)
    assert script.asked == ["HEAD", "PUT"]


async def test_the_bucket_is_made_when_the_first_object_misses_it() -> None:
    no_bucket, was_quicker = refusal(404, "NoSuchBucket"), refusal(409, "BucketAlreadyOwnedByYou")
    for made in (Answer(), was_quicker):
        with scripted_s3(MISSING, no_bucket, made, Answer()) as script, objects_of(script) as objects:
            await objects.put(DATA)
        assert script.asked == ["HEAD", "PUT", "PUT", "PUT"]


PASSING = {
    "closed": SILENCE,
    "busy": refusal(503, "SlowDown"),
    "broken": refusal(500, "InternalError"),
    "late": refusal(400, "RequestTimeout"),
    "many": refusal(429, "TooManyRequests"),
    "empty": Answer(502),
    "page": Answer(404, b"<html>no such page", {"Content-Type": "text/html"}),
    "garbage": Answer(400, b"<Error", {"Content-Type": "application/xml"}),
    "cut": Answer(200, DATA, cut=3),
}


@pytest.mark.parametrize("answer", PASSING.values(), ids=PASSING)
async def test_what_may_pass_is_asked_again_and_then_told_as_unreachable(answer: Answer) -> None:
    with scripted_s3(answer, answer, Answer(200, DATA)) as script, objects_of(script, PATIENT) as objects:
        assert await objects.get(NAME) == DATA
        assert len(script.asked) == 3
    with (
        scripted_s3(answer) as script,
        objects_of(script) as objects,
        pytest.raises(ObjectsUnreachable, match=rf"^s3://bucket at .*\(object {NAME}\)$") as raised,
    ):
        await objects.get(NAME)
    assert "TILTYARD_S3_ENDPOINT" in raised.value.fix, "a person is told what to do"


@pytest.mark.parametrize("answer", [PASSING["closed"], PASSING["busy"], PASSING["broken"]])
async def test_a_write_that_was_not_confirmed_is_not_done(answer: Answer) -> None:
    with (
        scripted_s3(MISSING, answer) as script,
        objects_of(script) as objects,
        pytest.raises(ObjectsUnreachable, match=NAME),
    ):
        await objects.put(DATA)
    with scripted_s3(MISSING, answer, MISSING, Answer()) as script, objects_of(script, PATIENT) as objects:
        await objects.put(DATA)
        assert script.asked == ["HEAD", "PUT"] * 2


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("AccessDenied", "TILTYARD_S3_ACCESS_KEY"),
        ("InvalidAccessKeyId", "TILTYARD_S3_ACCESS_KEY"),
        ("SignatureDoesNotMatch", "TILTYARD_S3_SECRET_KEY"),
        ("AuthorizationHeaderMalformed", "TILTYARD_S3_REGION"),
        ("InvalidBucketName", "TILTYARD_OBJECTS"),
        ("SomethingNew", "SomethingNew: because"),
    ],
)
async def test_a_refusal_is_told_at_once_and_names_the_setting(code: str, named: str) -> None:
    with scripted_s3(refusal(403, code)) as script, objects_of(script, PATIENT) as objects:
        with pytest.raises(EnvironmentFailed, match=named) as raised:
            await objects.get(NAME)
        assert not isinstance(raised.value, ObjectsUnreachable)
        assert len(script.asked) == 1


async def test_bytes_that_are_not_the_named_ones_are_never_handed_out() -> None:
    with scripted_s3(Answer(200, b"other")) as script, objects_of(script, PATIENT) as objects:
        with pytest.raises(EnvironmentFailed, match="does not hold the bytes"):
            await objects.get(NAME)
        assert len(script.asked) == 1


async def test_a_service_that_hangs_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # takes connections and never answers
        place = S3Place(endpoint=f"http://127.0.0.1:{listener.getsockname()[1]}", bucket="bucket")
        with closing(S3Objects(place, silence=timedelta(seconds=0.05))) as objects:
            for use in (lambda: objects.get(NAME), lambda: objects.put(DATA), objects.try_out):
                with pytest.raises(ObjectsUnreachable, match="timed out"):
                    await use()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"
CLOSING = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Type: application/xml\r\n\r\n<Error>"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(DATA), DATA)


@contextmanager
def dripping(beginning: bytes, drips: int = 10**9) -> Iterator[S3Place]:
    """A server that answers so, and then a byte now and then for ever; after ``drips`` connections it is well."""
    over = threading.Event()

    class Drips(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            nonlocal drips
            drips -= 1
            answer = beginning if drips >= 0 else WHOLE
            self.request.recv(65536)
            with suppress(OSError):
                self.request.sendall(answer)
                while answer is not WHOLE and not over.wait(0.02):
                    self.request.sendall(b"x")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Drips) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield S3Place(endpoint=f"http://127.0.0.1:{server.server_address[1]}", bucket="bucket")
        finally:
            over.set()
            server.shutdown()
            thread.join()


SHORT = timedelta(seconds=0.3)


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\nX: ", HEAD, CLOSING], ids=str)
async def test_a_service_that_drips_is_unreachable(beginning: bytes) -> None:
    """No byte is late by itself; it would go on for ever."""
    with dripping(beginning) as place, closing(S3Objects(place, silence=SHORT)) as objects:
        with pytest.raises(ObjectsUnreachable, match="timed out"):
            await objects.get(NAME)
        if beginning != HEAD:  # that is an answer to a write
            with pytest.raises(ObjectsUnreachable, match="timed out"):
                await objects.put(DATA)


async def test_requests_that_drip_do_not_keep_others_from_being_made() -> None:
    with (
        dripping(HEAD, drips=THREADS) as place,
        closing(S3Objects(place, silence=SHORT, patience=PATIENT)) as objects,
    ):
        assert await asyncio.gather(*(objects.get(NAME) for _ in range(THREADS + 1))) == [DATA] * (THREADS + 1)


async def test_what_comes_slowly_and_in_good_time_is_waited_for() -> None:
    nine = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
    with (
        dripping(nine) as place,
        closing(S3Objects(place)) as objects,
        pytest.raises(EnvironmentFailed, match="does not hold the bytes"),
    ):
        await objects.get(NAME)


async def test_a_redirection_is_not_followed() -> None:
    """The request is signed for the host that the settings name, and for no other."""
    with scripted_s3(Answer(200, DATA)) as elsewhere:
        there = Answer(307, headers={"Location": f"{elsewhere.place.endpoint}/bucket/x"})
        with scripted_s3(there) as script, objects_of(script) as objects, pytest.raises(EnvironmentFailed):
            await objects.get(NAME)
        assert elsewhere.asked == []


async def test_the_size_of_an_object_is_limited() -> None:
    with scripted_s3(MISSING, Answer()) as script:
        with closing(S3Objects(script.place, limit_bytes=3)) as objects:
            await objects.put(b"123")
            with pytest.raises(BadInput, match="object: 4 bytes are too many"):
                await objects.put(b"1234")
        assert script.asked == ["HEAD", "PUT"]


async def test_no_more_is_read_than_an_object_may_have() -> None:
    with (
        scripted_s3(Answer(200, DATA)) as script,
        closing(S3Objects(script.place, limit_bytes=3)) as objects,
        pytest.raises(EnvironmentFailed, match="does not hold the bytes"),
    ):
        await objects.get(NAME)


async def test_a_host_that_no_service_can_have_names_the_setting() -> None:
    with scripted_s3(SILENCE) as script:
        place = script.place.model_copy(update={"endpoint": "https://elsewhere.amazonaws.com"})
        with pytest.raises(BadInput, match=r"^TILTYARD_S3_ENDPOINT: "):
            S3Objects(place)
