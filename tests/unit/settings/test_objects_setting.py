"""Where content lives, as the environment says it: usable, or an error that names the variable."""

from contextlib import closing, suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infra.stores.s3_objects import S3Objects
from infra.stores.s3_place import s3_place
from tiltyard.errors import BadInput

BUCKET = {"TILTYARD_OBJECTS": "s3://bucket", "TILTYARD_S3_ENDPOINT": "http://127.0.0.1:9000"}
VARIABLES = (
    "TILTYARD_OBJECTS",
    "TILTYARD_S3_ENDPOINT",
    "TILTYARD_S3_ACCESS_KEY",
    "TILTYARD_S3_SECRET_KEY",
    "TILTYARD_S3_REGION",
)


@pytest.mark.parametrize("variables", [{}, {"TILTYARD_OBJECTS": ""}, {**BUCKET, "TILTYARD_OBJECTS": "folder"}])
def test_the_folder_is_the_default(variables: dict[str, str]) -> None:
    assert s3_place(variables) is None


@pytest.mark.parametrize(
    ("named", "shown"),
    [
        ("s3://bucket", "s3://bucket at http://127.0.0.1:9000"),
        ("s3://bucket/", "s3://bucket at http://127.0.0.1:9000"),
        ("s3://b-1.eu/some/where/", "s3://b-1.eu/some/where at http://127.0.0.1:9000"),
    ],
)
def test_a_bucket_with_or_without_a_prefix(named: str, shown: str) -> None:
    assert str(s3_place({**BUCKET, "TILTYARD_OBJECTS": named})) == shown


@pytest.mark.parametrize(
    "endpoint",
    ["http://localhost:9000", "https://s3.eu-central-1.amazonaws.com", "http://[::1]:9000", "https://S3.test/"],
)
def test_endpoints_that_can_be_used(endpoint: str) -> None:
    place = s3_place({**BUCKET, "TILTYARD_S3_ENDPOINT": endpoint})
    assert place is not None
    assert place.endpoint == endpoint.removesuffix("/").lower()
    with closing(S3Objects(place)):
        pass


BAD = {
    "TILTYARD_OBJECTS": [
        *("bucket", "s3:bucket", "s3://", "s3://ab", "s3://Bucket", "s3://a..b", "s3://a.-b", "s3://127.0.0.1"),
        *("s3://bucket//x", "s3://bucket/../x", "s3://bucket/x/..", "s3://bucket/./x", "s3://bucket/a b"),
        *("s3://bucket/" + "x" * 201, "s3://" + "b" * 64, "s3://bucket/ü", "gs://bucket", "/folder"),
    ],
    "TILTYARD_S3_ENDPOINT": [
        *("", "127.0.0.1:9000", "ftp://host", "http://", "http://host:70000", "http://host:x", "http://host/path"),
        *("http://user:marked@host", "http://host?x", "http://host#x", "http://ho st", "http://a..b", "http://[x]"),
    ],
    "TILTYARD_S3_ACCESS_KEY": ["", "two words", "a\nb", "ü", "x" * 257],
    "TILTYARD_S3_SECRET_KEY": ["", "two words", "a\r\nb", "marked secret"],
    "TILTYARD_S3_REGION": ["EU", "eu_1", "-x", "a b", "x" * 41],
}


@pytest.mark.parametrize(("variable", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_what_cannot_be_used_names_the_variable_and_the_mend(variable: str, value: str) -> None:
    keys = {"TILTYARD_S3_ACCESS_KEY": "key", "TILTYARD_S3_SECRET_KEY": "secret"}
    with pytest.raises(BadInput, match=f"^{variable}: ") as raised:
        s3_place({**BUCKET, **keys, variable: value})
    assert raised.value.fix
    assert "marked" not in str(raised.value)
    assert len(str(raised.value)) < 300


NEAR = st.text("abc019.-_/:@?#[]% sS3hHtTpP\nü", max_size=20)


@given(st.dictionaries(st.sampled_from(VARIABLES), NEAR))
@example({"TILTYARD_OBJECTS": "s3://xn--abc", "TILTYARD_S3_ENDPOINT": "http://amazonaws.com"})
@example({"TILTYARD_OBJECTS": "s3://a-s3alias", "TILTYARD_S3_ENDPOINT": "http://127.0.0.1"})
def test_whatever_is_accepted_makes_a_client(given: dict[str, str]) -> None:
    """Or is refused in our words."""
    variables = {
        **given,
        "TILTYARD_OBJECTS": "s3://" + given.get("TILTYARD_OBJECTS", "bucket").removeprefix("s3://"),
        "TILTYARD_S3_ENDPOINT": "http://" + given.get("TILTYARD_S3_ENDPOINT", "host").removeprefix("http://"),
    }
    with suppress(BadInput):
        place = s3_place(variables)
        assert place is not None
        S3Objects(place).close()
