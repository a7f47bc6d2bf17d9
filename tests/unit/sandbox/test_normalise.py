"""Parts of outputs that differ between equal runs are left out of the digest, and nothing else is."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.sandbox import Normaliser
from tiltyard.sandbox.normalise import PATTERNS, normalised

NAMES: tuple[Normaliser, ...] = get_args(Normaliser)

LEFT_OUT: tuple[tuple[Normaliser, str, str], ...] = (
    ("durations", "Ran 3 tests in 0.003s", "Ran 3 tests in <duration>"),
    ("durations", "2 passed in 61.02s (0:01:01)", "2 passed in <duration> (<duration>)"),
    ("durations", "took 1.2 seconds, then 5 ms", "took <duration>, then <duration>"),
    ("durations", "1 second; 2 minutes; 3 µs; 4ns", "<duration>; <duration>; <duration>; <duration>"),
    ("durations", "real\t0m0.003s", "real\t<duration>"),
    ("durations", "0.12345678901234567s 1.5e-05s", "<duration> <duration>"),
    ("addresses", "<Desk object at 0x7f3a9c0011d0>", "<Desk object at <address>>"),
    ("process_ids", "pid 123, PID: 45, process #6, pid=7", "pid <pid>, PID: <pid>, process #<pid>, pid=<pid>"),
    ("temporary_names", "wrote /tmp/tmpab12cd/out.txt", "wrote /tmp/<name>/out.txt"),
    ("temporary_names", "/tmp/tmp.Xy_z-9", "/tmp/<name>"),
    ("users", "uid=1900000000(agent) gid=1999999999(agent)", "uid=<user>(agent) gid=<user>(agent)"),
)


@pytest.mark.parametrize(("name", "text", "expected"), LEFT_OUT)
def test_what_differs_is_left_out(name: Normaliser, text: str, expected: str) -> None:
    assert normalised(text, (name,)) == expected
    assert name == "durations" or normalised(text, ("durations",)) == text, "only what was asked for"
    assert normalised(text, ()) == text


KEPT = (
    "Ran 3 tests",
    "FAILED (failures=1, errors=2)",
    "version 1.2.3, 5 shops, s3, 7 msgs, 10 hits",
    "line 12, in test_it",
    "rapid 5, unprocessed 5, pids, 0x, 0xg",
    "/temp/x, tmp/x, /tmp, /tmp/",
    "1899999999, 2000000000, 190000000, 19000000000, x1900000000, 1900000000x",
)


@pytest.mark.parametrize("text", KEPT)
def test_what_does_not_differ_is_kept(text: str) -> None:
    assert normalised(text, NAMES) == text


FRAGMENTS = st.sampled_from(
    (
        "0",
        "12",
        "0.5",
        "s",
        " ms",
        "1e-5",
        "0x",
        "beef1",
        "pid ",
        "PID: ",
        "/tmp/",
        "tmpab",
        ":",
        "m",
        "é",
        " ",
        "\n",
    )
)


@given(st.lists(FRAGMENTS | st.text(max_size=3), max_size=30).map("".join), st.sets(st.sampled_from(NAMES)))
def test_again_changes_nothing(text: str, names: set[Normaliser]) -> None:
    order = tuple(name for name in NAMES if name in names)
    once = normalised(text, order)
    assert normalised(once, order) == once


@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9), st.integers(1, 2**22), st.integers(0, 2**63))
def test_equal_runs_look_equal(one: float, other: float, pid: int, address: int) -> None:
    def run(seconds: float, pid: int, address: int) -> str:
        return f"pid {pid}: <object at 0x{address:012x}> in {seconds:.3f}s, that is {seconds} seconds\nOK"

    assert normalised(run(one, pid, address), NAMES) == normalised(run(other, 1, 2**40), NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_repetition_has_a_bound(name: Normaliser) -> None:
    """So each position of a text costs a bounded number of steps, whatever the text is."""
    pattern, _ = PATTERNS[name]
    outside_of_sets = re.sub(r"\[[^\]]*\]", "", pattern.pattern)
    assert not re.search(r"[*+]|,\}", outside_of_sets)


@pytest.mark.parametrize(
    "text", ["0" * 10**6, "0x" * 10**6, "/tmp/" + "a" * 10**6, "pid  " * 10**5, "1:11:" * 10**5]
)
def test_hostile_texts_come_to_an_end(text: str) -> None:
    assert len(normalised(text, NAMES)) <= len(text) * 10
