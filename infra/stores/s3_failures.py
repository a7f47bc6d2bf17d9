"""What goes wrong with an S3 service, in our words: away, refusing, or without the object."""

from collections.abc import Iterator
from contextlib import contextmanager
from xml.etree.ElementTree import ParseError

from minio.error import InvalidResponseError, S3Error, ServerError
from urllib3.exceptions import HTTPError

from infra.stores.s3_place import ACCESS_KEY, ENDPOINT, OBJECTS, REGION, SECRET_KEY, S3Place
from tiltyard.errors import EnvironmentFailed, ObjectsUnreachable

__all__ = ["MISSING", "told"]

MISSING = frozenset({"NoSuchKey", "NoSuchBucket"})

_BUSY_CODES = frozenset({"RequestTimeout", "SlowDown", "OperationAborted"})
_BUSY_STATUS = frozenset({408, 429})

_MENDS = {
    "AccessDenied": f"let the user of {ACCESS_KEY} read and write the bucket, and see that {SECRET_KEY} is right",
    "InvalidAccessKeyId": f"{ACCESS_KEY} is not known there",
    "SignatureDoesNotMatch": f"{SECRET_KEY} does not belong to {ACCESS_KEY}",
    "AuthorizationHeaderMalformed": f"set {REGION} to the bucket's region",
    "PermanentRedirect": f"set {REGION} to the bucket's region",
    "RequestTimeTooSkewed": "set the clock of this machine",
    "InvalidBucketName": f"name another bucket in {OBJECTS}",
}


@contextmanager
def told(place: S3Place, name: str) -> Iterator[None]:
    """Turn what the client raises into ``ObjectsUnreachable`` where it may pass, else ``EnvironmentFailed``.

    ``name`` is the object in question, if there is one.
    """
    try:
        yield
    except S3Error as error:
        raise _answered(error, place, name) from error
    except ServerError as error:
        raise _away(place, f"answers with status {error.status_code}", name) from error
    except (InvalidResponseError, ParseError, UnicodeDecodeError) as error:
        raise _away(place, "answers as no S3 service does", name) from error
    except (HTTPError, OSError) as error:
        raise _away(place, f"does not answer: {_why(error)}", name) from error


def _away(place: S3Place, how: str, name: str) -> ObjectsUnreachable:
    return ObjectsUnreachable(f"{place} {how}{_object(name)}", fix=f"start the S3 service, or mend {ENDPOINT}")


def _object(name: str) -> str:
    """Which object it was about, for whoever has to look for it; most people do not."""
    return f" (object {name})" if name else ""


def _answered(error: S3Error, place: S3Place, name: str) -> EnvironmentFailed:
    code, status = error.code or "", error.response.status
    if name and code in MISSING:
        return EnvironmentFailed(f"object {name} is missing")
    said = f"{code}: {(error.message or 'no reason given')[:200]}"
    if status >= 500 or status in _BUSY_STATUS or code in _BUSY_CODES:
        return _away(place, f"is not able to answer: {said}", name)
    mend = _MENDS.get(code)
    return EnvironmentFailed(f"{place} refuses: {said}{_object(name)}" + (f"; {mend}" if mend else ""))


def _why(error: Exception) -> str:
    """The innermost reason, for the libraries wrap it in several layers."""
    cause = error.__cause__ or next((one for one in error.args if isinstance(one, Exception)), None)
    if isinstance(cause, Exception):
        return _why(cause)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)[:200] or type(error).__name__
