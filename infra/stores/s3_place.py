"""Which S3 bucket keeps the objects, as the settings name it."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic import SecretStr

from schemas.base import Model
from tiltyard.errors import BadInput

__all__ = ["S3Place", "s3_place"]

OBJECTS = "TILTYARD_OBJECTS"
ENDPOINT = "TILTYARD_S3_ENDPOINT"
ACCESS_KEY = "TILTYARD_S3_ACCESS_KEY"
SECRET_KEY = "TILTYARD_S3_SECRET_KEY"  # noqa: S105 the name of the setting
REGION = "TILTYARD_S3_REGION"

_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_BUCKET = re.compile(rf"(?=.{{3,63}}\Z){_LABEL}(?:\.{_LABEL})*")
_NUMBERS_ALONE = re.compile(r"[0-9.]+")
_PREFIX = re.compile(r"(?!.*(?:^|/)\.{1,2}(?:/|\Z))[A-Za-z0-9._=-]+(?:/[A-Za-z0-9._=-]+)*")
_KEY = re.compile(r"[\x21-\x7e]{1,256}")
_REGION = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_LONGEST_PREFIX = 200


class S3Place(Model):
    """A bucket of an S3 service. ``prefix`` stands before every key, without a slash at its end; it may be empty.

    Without keys the service is asked as nobody in particular.
    """

    endpoint: str
    bucket: str
    prefix: str = ""
    access_key: SecretStr | None = None
    secret_key: SecretStr | None = None
    region: str = "us-east-1"

    def __str__(self) -> str:
        """For messages: where it is, and nothing that is secret."""
        return f"s3://{'/'.join(filter(None, (self.bucket, self.prefix)))} at {self.endpoint}"


def s3_place(variables: Mapping[str, str]) -> S3Place | None:
    """The place that the variables name; ``None`` is the folder. Raises ``BadInput`` that names the variable."""
    named = variables.get(OBJECTS) or "folder"
    if named == "folder":
        return None
    bucket, prefix = _bucket_and_prefix(named)
    keys = _keys(variables)
    return S3Place(
        endpoint=_endpoint(variables.get(ENDPOINT, "")),
        bucket=bucket,
        prefix=prefix,
        access_key=keys[0],
        secret_key=keys[1],
        region=_region(variables.get(REGION) or "us-east-1"),
    )


def _bucket_and_prefix(named: str) -> tuple[str, str]:
    scheme, _, path = named.partition("://")
    bucket, _, prefix = path.removesuffix("/").partition("/")
    usable = (
        scheme == "s3"
        and _BUCKET.fullmatch(bucket)
        and not _NUMBERS_ALONE.fullmatch(bucket)
        and (not prefix or _PREFIX.fullmatch(prefix))
        and len(prefix) <= _LONGEST_PREFIX
    )
    if not usable:
        raise BadInput(
            f"{named[:80]!r} is neither `folder` nor s3://BUCKET or s3://BUCKET/PREFIX",
            field=OBJECTS,
            fix="a bucket has 3 to 63 lower-case letters, digits and dashes, as in s3://tiltyard/objects",
        )
    return bucket, prefix


def _endpoint(given: str) -> str:
    """``http(s)://host[:port]``. A bad one is not repeated: some people write a password into it."""
    fix = f"for example {ENDPOINT}=https://s3.example.com:9000"
    if not given:
        raise BadInput(f"is not set, and {OBJECTS} names a bucket", field=ENDPOINT, fix=fix)
    try:
        url = urlsplit(given)
        whole = f"{url.scheme}://{_host(url.hostname or '')}{f':{url.port}' if url.port else ''}"
    except ValueError:
        whole = ""
    if not whole.startswith(("http://", "https://")) or given.removesuffix("/").lower() != whole:
        raise BadInput("is not http://HOST:PORT or https://HOST:PORT, without a path", field=ENDPOINT, fix=fix)
    return whole


def _host(name: str) -> str:
    if re.fullmatch(r"[0-9a-f:]+:[0-9a-f:.]+", name):
        return f"[{name}]"
    if not re.fullmatch(r"[a-z0-9_](?:[a-z0-9._-]{0,250}[a-z0-9_])?", name) or ".." in name:
        raise ValueError
    return name


def _keys(variables: Mapping[str, str]) -> tuple[SecretStr | None, SecretStr | None]:
    given = {name: variables.get(name, "") for name in (ACCESS_KEY, SECRET_KEY)}
    for name, other in ((ACCESS_KEY, SECRET_KEY), (SECRET_KEY, ACCESS_KEY)):
        if given[other] and not given[name]:
            raise BadInput(f"is not set, and {other} is", field=name, fix="set both, or neither")
        if given[name] and not _KEY.fullmatch(given[name]):
            raise BadInput("holds a character that no key has, or is too long", field=name, fix="copy it again")
    access, secret = (SecretStr(key) if key else None for key in given.values())
    return access, secret


def _region(given: str) -> str:
    if not _REGION.fullmatch(given):
        raise BadInput(f"{given[:80]!r} is no region", field=REGION, fix=f"for example {REGION}=eu-central-1")
    return given
