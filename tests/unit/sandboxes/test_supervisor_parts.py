"""Parts of the supervisor that need no process: what is kept of an output, paths, JSON, its filter."""

import json
import os
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.sandboxes.supervisor.files import parts_of
from infra.sandboxes.supervisor.messages import Refused, dumps, loads
from infra.sandboxes.supervisor.notices import (
    ALLOW,
    EQUAL,
    EXECS,
    GREATER,
    LOAD,
    MSG_NOSIGNAL,
    NOTIFY,
    RETURN,
    SEND_TO,
    SENDS,
    call_filter,
)
from infra.sandboxes.supervisor.output import Capture
from schemas.sandbox import work_path

NAMES = st.text(st.characters(codec="utf-8"), max_size=8)


@given(st.lists(st.binary(max_size=300)), st.integers(8, 200))
def test_an_output_keeps_its_ends_in_whatever_pieces_it_comes(pieces: list[bytes], limit: int) -> None:
    capture, whole = Capture(limit), b"".join(pieces)
    for piece in pieces:
        capture.feed(piece)
    output = capture.output()
    assert output["total_bytes"] == len(whole)
    if len(whole) <= limit:
        assert (output["text"], output["cut_bytes"]) == (whole.decode("utf-8", "replace"), 0)
        return
    first, last = whole[: limit // 2], whole[-(limit - limit // 2) :]
    head, _, tail = output["text"].partition(f"\n[{output['cut_bytes']} bytes cut]\n")
    assert first.decode("utf-8", "replace").startswith(head)
    assert last.decode("utf-8", "replace").endswith(tail)
    assert len(whole) - limit <= output["cut_bytes"] <= len(whole) - limit + 6


@given(st.text(), st.integers(8, 200))
def test_text_is_never_called_anything_else(text: str, limit: int) -> None:
    capture = Capture(limit)
    capture.feed(text.encode("utf-8", "replace"))
    assert not capture.output()["invalid_utf8"]


@given(st.one_of(st.text(), st.lists(NAMES | st.sampled_from(["..", ".", "", "\0"])).map("/".join)))
def test_paths_are_those_that_the_port_takes(path: str) -> None:
    """The supervisor is asked by a host that has looked already; it looks again, with the same eyes."""
    try:
        expected = work_path(path) if path.isascii() or path.encode("utf-8", "replace").decode() == path else None
    except ValueError:
        expected = None
    if expected is None:
        with pytest.raises(Refused):
            parts_of(path)
    else:
        assert parts_of(path) == expected.split("/")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(JSON)
def test_its_json_is_that_of_everybody(value: Any) -> None:
    text = dumps(value)
    assert json.loads(text) == value
    assert loads(json.dumps(value)) == loads(text) == value


@pytest.mark.parametrize("text", ["", " ", "{", "nul", "[1,]", "NaN", "[Infinity]", "1 2", '{"a":1} ', '"\\x"'])
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting|Invalid"):
        loads(text)


def verdict(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the kernel would do with a call: the filter, run here."""
    called = number if number < 2**31 else number - 2**32
    data = struct.pack("<iIQ6Q", called, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    loaded = at = 0
    while True:
        code, when_true, when_false, operand = struct.unpack_from("<HBBI", program, 8 * at)
        at += 1
        if code == LOAD:
            (loaded,) = struct.unpack_from("<I", data, operand)
        elif code == EQUAL:
            at += when_true if loaded == operand else when_false
        elif code == GREATER:
            at += when_true if loaded > operand else when_false
        else:
            assert code == RETURN
            return int(operand)


@pytest.mark.parametrize("machine", sorted(EXECS))
def test_the_filter_tells_of_execs_and_sends_and_allows_everything(machine: str) -> None:
    """None of the sends here names anybody, so of ``sendto`` nothing is told."""
    program = call_filter(machine)
    for architecture, (execs, _) in EXECS[machine].items():
        sends = {number for number, name in SENDS.get(architecture, {}).items() if name != SEND_TO}
        told = {number for number in [*range(600), *execs] if verdict(program, architecture, number) != ALLOW}
        assert told == {*execs, *sends}
        assert {verdict(program, architecture, number) for number in told} == {NOTIFY}
    assert verdict(program, 0x1234, 59) == ALLOW


@pytest.mark.parametrize(
    ("size", "flags", "address", "told"),
    [
        (100, 0, 0, ALLOW),
        (512, MSG_NOSIGNAL, 0, NOTIFY),
        (513, MSG_NOSIGNAL, 0, ALLOW),
        (9000, 0, 1, NOTIFY),
        (9000, 0, 2**32, NOTIFY),
    ],
)
def test_a_send_is_told_that_names_somebody_or_may_ask_for_a_name(
    size: int, flags: int, address: int, told: int
) -> None:
    for machine in EXECS:
        for architecture, names in SENDS.items():
            if architecture in EXECS[machine]:
                number = next(number for number, name in names.items() if name == SEND_TO)
                assert verdict(call_filter(machine), architecture, number, 3, 4096, size, flags, address) == told


def test_the_filter_knows_this_machine() -> None:
    """The numbers are those of the kernel's headers, where they can be looked up."""
    machine = os.uname().machine
    if machine not in EXECS:
        pytest.skip(f"programs are not told of on {machine}")
    native = next(iter(EXECS[machine].values()))
    assert native == {"x86_64": ((59, 322, 0x40000208), 8), "aarch64": ((221, 281), 8)}[machine]
