"""Content-addressed objects in a bucket of any S3 service, laid out like the folder: ``PREFIX/ab/cd/<digits>``."""

import asyncio
import hashlib
import io
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from minio import Minio
from minio.error import S3Error
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential
from urllib3 import PoolManager, Timeout

from infra.stores.objects import layout, verified
from infra.stores.s3_failures import MISSING, told
from infra.stores.s3_limit import LEAST_BYTES_S, Limit, limit_requests, limited
from infra.stores.s3_place import ENDPOINT, S3Place
from schemas.base import sha256
from tiltyard.errors import BadInput, ObjectsUnreachable

__all__ = ["S3Objects"]

T = TypeVar("T")

THREADS = 8
"""Requests at once. The threads are the driver's own: a service that hangs must not hold up the databases."""

CONNECT = timedelta(seconds=3)
"""How long a connection may take to be made."""

SILENCE = timedelta(seconds=30)
"""How long the service may say nothing on a connection: it may be writing a large object to its disks.

So long a whole request may take, and longer by what it carries at ``LEAST_BYTES_S``."""

LIMIT_BYTES = 512 * 1024 * 1024
"""The largest object: it is in memory as a whole, and one request must carry it."""

_LEAST_PART_BYTES = 5 * 1024 * 1024
_PIECE_BYTES = 64 * 1024


class S3Objects:
    """Implements ``ObjectStore``.

    The service takes an object whole or not at all. What is there already, by the size and the digest that the
    service reports, is not sent again; what is read is checked against its name. The bucket is made at the first
    write that misses it. ``close`` it at the end.

    Raises ``ObjectsUnreachable`` when the service is away for longer than ``patience``, ``EnvironmentFailed`` when
    it refuses, or when an object is missing or was changed, and ``BadInput`` for more than ``limit_bytes``.
    """

    def __init__(
        self,
        place: S3Place,
        *,
        patience: timedelta = timedelta(0),
        silence: timedelta = SILENCE,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        self._place, self._patience, self._limit_bytes = place, patience, limit_bytes
        self._silence_s = silence.total_seconds()
        self._http = limit_requests(
            PoolManager(
                timeout=Timeout(connect=CONNECT.total_seconds(), read=self._silence_s),
                retries=False,  # we count and wait ourselves
                maxsize=THREADS,
                cert_reqs="CERT_REQUIRED",
            )
        )
        self._client = _client(place, self._http)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="s3")

    def close(self) -> None:
        """Let go of threads and connections. A request under way is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._http.clear()

    async def put(self, data: bytes) -> str:
        if len(data) > self._limit_bytes:
            raise BadInput(f"{len(data)} bytes are too many (limit {self._limit_bytes})", field="object")
        name = sha256(data)
        await self._patiently(name, lambda limit: self._store(name, data), len(data))
        return name

    async def get(self, name: str) -> bytes:
        return await self._patiently(name, lambda limit: self._fetch(name, limit))

    async def try_out(self) -> bool:
        if not await self._patiently("", lambda limit: self._bucket_is_there()):
            return False
        name = await self.put(secrets.token_bytes(32))
        await self.get(name)
        await self._patiently(name, lambda limit: self._remove(name))
        return True

    def key(self, name: str) -> str:
        """Where the object of that name is or would be. Raises ``EnvironmentFailed`` for a name that is none."""
        return "/".join(filter(None, (self._place.prefix, layout(name))))

    async def _patiently(self, name: str, work: Callable[[Limit], T], size: int = 0) -> T:
        """Do the work in a thread, again while the service is away; it sends ``size`` bytes.

        A caller that is cancelled does not end it, its limit does.
        """

        def once() -> T:
            with told(self._place, name), limited(self._silence_s + size / LEAST_BYTES_S) as limit:
                return work(limit)

        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(ObjectsUnreachable),
            wait=wait_random_exponential(multiplier=0.05, max=1),
            stop=stop_after_delay(self._patience),
            reraise=True,
        ):
            with attempt:
                return await asyncio.get_running_loop().run_in_executor(self._threads, once)
        raise AssertionError("retrying ends with a result or an error")

    def _store(self, name: str, data: bytes) -> None:
        if self._is_there(name, data):
            return
        try:
            self._send(name, data)
        except S3Error as error:
            if error.code != "NoSuchBucket":
                raise
            self._make_bucket()
            self._send(name, data)

    def _is_there(self, name: str, data: bytes) -> bool:
        """Whether the service reports an object of these very bytes. Its digest is the MD5 that S3 makes of what
        arrived; where a service reports something else, the object is sent again, which is never wrong."""
        try:
            found = self._client.stat_object(self._place.bucket, self.key(name))
        except S3Error as error:
            if error.code in MISSING or error.code == "AccessDenied":  # S3's answer to those who may not list
                return False
            raise
        reported = (found.etag or "").strip('"')
        return found.size == len(data) and reported == hashlib.md5(data, usedforsecurity=False).hexdigest()

    def _send(self, name: str, data: bytes) -> None:
        """In one request, which the service takes whole or not at all."""
        part = max(len(data), _LEAST_PART_BYTES)
        self._client.put_object(self._place.bucket, self.key(name), io.BytesIO(data), len(data), part_size=part)

    def _fetch(self, name: str, limit: Limit) -> bytes:
        response = self._client.get_object(self._place.bucket, self.key(name))
        data = bytearray()
        try:
            while room := self._limit_bytes + 1 - len(data):  # one more than any object of ours has
                if not (piece := response.read(min(room, _PIECE_BYTES))):
                    break
                data += piece
                limit.carried(len(piece))
        finally:
            response.close()
            response.release_conn()
        return verified(name, bytes(data))

    def _make_bucket(self) -> None:
        try:
            self._client.make_bucket(self._place.bucket)
        except S3Error as error:
            if error.code not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):  # somebody was quicker
                raise

    def _bucket_is_there(self) -> bool:
        try:
            return self._client.bucket_exists(self._place.bucket)
        except S3Error as error:
            if error.code == "AccessDenied":  # perhaps only the question is forbidden
                return True
            raise

    def _remove(self, name: str) -> None:
        with suppress(S3Error):  # one who may not delete leaves 32 bytes behind
            self._client.remove_object(self._place.bucket, self.key(name))


def _client(place: S3Place, http: PoolManager) -> Minio:
    scheme, _, host = place.endpoint.partition("://")
    try:
        return Minio(
            host,
            access_key=place.access_key.get_secret_value() if place.access_key else None,
            secret_key=place.secret_key.get_secret_value() if place.secret_key else None,
            secure=scheme == "https",
            region=place.region,
            http_client=http,
        )
    except ValueError as error:
        raise BadInput(str(error), field=ENDPOINT, fix="name the host and port of the S3 service") from error
