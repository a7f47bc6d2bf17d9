"""The kit, and what can go wrong, on a real S3 server."""

import asyncio
import io
import socket
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import urllib3
from minio import Minio

from infra.stores.objects import FolderObjects
from infra.stores.s3_objects import S3Objects
from infra.stores.s3_place import S3Place
from schemas.base import sha256
from tests.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, s3_server
from tiltyard.errors import EnvironmentFailed, ObjectsUnreachable
from tiltyard.testing.objects_kit import OBJECTS_CHECKS, ObjectsCheck, Spoil

PREFIX = "some/where"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def place(server: S3Server) -> S3Place:
    """A bucket that does not exist yet."""
    return server.place(f"bucket-{uuid4()}", PREFIX)


@pytest.fixture
def objects(place: S3Place) -> Iterator[S3Objects]:
    with closing(S3Objects(place, patience=timedelta(seconds=60))) as opened:
        yield opened


@pytest.fixture
def raw(server: S3Server) -> Iterator[Minio]:
    """The way to the server's data behind our back."""
    http = urllib3.PoolManager(retries=False, timeout=30)
    host = server.endpoint.removeprefix("http://")
    yield Minio(host, ACCESS_KEY, SECRET_KEY, secure=False, region="us-east-1", http_client=http)
    http.clear()


@pytest.fixture
def spoil(objects: S3Objects, place: S3Place, raw: Minio) -> Spoil:
    def spoil(name: str, data: bytes | None) -> None:
        if data is None:
            raw.remove_object(place.bucket, objects.key(name))
        else:
            raw.put_object(place.bucket, objects.key(name), io.BytesIO(data), len(data))

    return spoil


@pytest.mark.parametrize("check", OBJECTS_CHECKS, ids=lambda check: check.__name__)
async def test_s3_objects(check: ObjectsCheck, objects: S3Objects, spoil: Spoil) -> None:
    await check(objects, spoil)


async def test_a_change_that_keeps_the_size_is_noticed_and_mended(objects: S3Objects, spoil: Spoil) -> None:
    name = await objects.put(b"the truth")
    spoil(name, b"the lie, ")
    with pytest.raises(EnvironmentFailed, match="does not hold the bytes"):
        await objects.get(name)
    await objects.put(b"the truth")
    assert await objects.get(name) == b"the truth"


async def test_an_upload_that_is_cut_leaves_no_object(objects: S3Objects, place: S3Place, raw: Minio) -> None:
    data = b"x" * 300_000
    await objects.put(b"so that there is a bucket")
    url = urlsplit(raw.presigned_put_object(place.bucket, objects.key(sha256(data))))
    with socket.create_connection((str(url.hostname), url.port)) as connection:
        head = f"PUT {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: {len(data)}\r\n\r\n"
        connection.sendall(head.encode() + data[:100_000])
    with pytest.raises(EnvironmentFailed, match="is missing"):
        await objects.get(sha256(data))
    assert await objects.get(await objects.put(data)) == data


async def test_the_bucket_is_laid_out_like_the_folder(
    objects: S3Objects, place: S3Place, raw: Minio, tmp_path: Path
) -> None:
    """So one can be copied to the other."""
    folder = FolderObjects(tmp_path)
    contents = [b"one", b"two", b"x" * 100_000]
    for data in contents:
        name = await folder.put(data)
        await objects.put(data)
        assert objects.key(name) == f"{PREFIX}/{folder.path(name).relative_to(tmp_path)}"
    kept = {one.object_name for one in raw.list_objects(place.bucket, recursive=True)}
    assert kept == {objects.key(sha256(data)) for data in contents}


async def test_many_writers_of_a_new_bucket_all_succeed(objects: S3Objects) -> None:
    names = await asyncio.gather(*(objects.put(b"%d" % n) for n in range(16)))
    assert [await objects.get(name) for name in names] == [b"%d" % n for n in range(16)]


async def test_trying_out_leaves_nothing(objects: S3Objects, place: S3Place, raw: Minio) -> None:
    assert not await objects.try_out()
    assert not raw.bucket_exists(place.bucket)
    name = await objects.put(b"kept")
    assert await objects.try_out()
    (kept,) = raw.list_objects(place.bucket, recursive=True)
    assert kept.object_name == objects.key(name)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"secret_key": "wrong"}, "TILTYARD_S3_SECRET_KEY"),
        ({"access_key": "nobody"}, "TILTYARD_S3_ACCESS_KEY"),
        ({"access_key": None, "secret_key": None}, "TILTYARD_S3_ACCESS_KEY"),
    ],
)
async def test_wrong_keys_are_told_and_no_key_is(
    place: S3Place, changed: dict[str, str | None], named: str
) -> None:
    wrong = S3Place.model_validate({**place.model_dump(), **changed})
    with closing(S3Objects(wrong)) as objects:
        for use in (lambda: objects.put(b"x"), lambda: objects.get(sha256(b"x")), objects.try_out):
            with pytest.raises(EnvironmentFailed, match=named) as raised:
                await use()
            assert SECRET_KEY not in str(raised.value)
            assert "wrong" not in str(raised.value)


async def test_a_server_that_is_killed_keeps_what_it_confirmed(
    server: S3Server, place: S3Place, objects: S3Objects
) -> None:
    name = await objects.put(b"confirmed")
    server.kill()
    with closing(S3Objects(place, patience=timedelta(0))) as impatient:
        for use in (lambda: impatient.get(name), lambda: impatient.put(b"confirmed"), impatient.try_out):
            with pytest.raises(ObjectsUnreachable, match=server.endpoint):
                await use()
    waiting = asyncio.gather(objects.get(name), objects.put(b"meanwhile"))
    server.start()
    assert tuple(await waiting) == (b"confirmed", sha256(b"meanwhile"))
    assert await objects.get(sha256(b"meanwhile")) == b"meanwhile"


async def test_a_server_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    server = S3Server(tmp_path)
    try:
        with closing(S3Objects(server.place("late-bucket"), patience=timedelta(seconds=60))) as objects:
            waiting = asyncio.create_task(objects.put(b"early"))
            server.launch()
            assert await objects.get(await waiting) == b"early"
    finally:
        server.kill()
        server.sweep()
