"""The tools of a sandbox: what an agent's arguments become, and what it is shown of an outcome."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import JsonObject, JsonValue
from schemas.operation import (
    MAX_WRITE_BYTES,
    ExecRequest,
    ExecResult,
    Output,
    ReadRequest,
    ReadResult,
    SandboxReply,
    SandboxRequest,
    WriteRequest,
    WriteResult,
    request_digest,
)
from schemas.sandbox import SandboxLimits
from schemas.world import Shown
from tiltyard.sandbox.tools import MAX_COMMAND_BYTES, SANDBOX_TOOLS, in_time, request_of, shown_of

LIMITS = SandboxLimits(command_s=30)


def asked(tool: str, **arguments: JsonValue) -> SandboxRequest | Shown:
    return request_of(tool, arguments, "op", LIMITS)


def test_the_tools_and_what_they_cost() -> None:
    assert {name: tool.cost_s for name, tool in SANDBOX_TOOLS.items()} == {
        "shell": 5,
        "read_file": 1,
        "write_file": 1,
    }
    assert SANDBOX_TOOLS["shell"].parameters["required"] == ["command"]
    assert all(tool.description and not tool.writes for tool in SANDBOX_TOOLS.values())


@pytest.mark.parametrize(("timeout_s", "allowed_s"), [(None, 30), (5, 5), (0.5, 0.5), (300, 30), (1e300, 30)])
def test_a_command_has_the_task_s_time_at_most(timeout_s: float | None, allowed_s: float) -> None:
    assert asked("shell", command="ls", timeout_s=timeout_s) == ExecRequest(
        op_id="op", argv=("/bin/sh", "-c", "ls"), timeout_s=allowed_s
    )


@pytest.mark.parametrize("path", ["src/app.py", "/work/src/app.py"])
def test_a_path_may_begin_with_the_working_directory(path: str) -> None:
    assert asked("read_file", path=path) == ReadRequest(op_id="op", path="src/app.py", limit=16_384)
    assert asked("write_file", path=path, content="é") == WriteRequest(
        op_id="op", path="src/app.py", content="é".encode()
    )


WRONG: tuple[tuple[str, JsonObject, str, str], ...] = (
    ("shell", {}, "command", "missing"),
    ("shell", {"command": ""}, "command", "at least 1 character"),
    ("shell", {"command": 5}, "command", "string"),
    ("shell", {"command": "a\0b"}, "command", "zero byte"),
    ("shell", {"command": "é" * 70_000}, "command", "140000 bytes"),
    ("shell", {"command": "x" * (MAX_COMMAND_BYTES + 1)}, "command", str(MAX_COMMAND_BYTES)),
    ("shell", {"command": "\ud800"}, "arguments", "JSON"),
    ("shell", {"command": "ls", "timeout_s": 0}, "timeout_s", "greater than 0"),
    ("shell", {"command": "ls", "timeout_s": "5"}, "timeout_s", "number"),
    ("shell", {"command": "ls", "cwd": "/"}, "cwd", "no such argument"),
    ("read_file", {"path": "/etc/passwd"}, "path", "relative to the working directory"),
    ("read_file", {"path": "../x"}, "path", "relative to the working directory"),
    ("read_file", {"path": "/work"}, "path", "relative to the working directory"),
    ("read_file", {"path": "/work/"}, "path", "1 to 1024 bytes"),
    ("read_file", {"path": "x\0y"}, "path", "relative to the working directory"),
    ("read_file", {"path": "é" * 600}, "path", "1 to 1024 bytes"),
    ("read_file", {"path": "f", "offset": -1}, "offset", "greater than or equal to 0"),
    ("read_file", {"path": "f", "limit": 0}, "limit", "greater than or equal to 1"),
    ("write_file", {"path": "f"}, "content", "missing"),
    ("write_file", {"path": "f", "content": "é" * (MAX_WRITE_BYTES // 2 + 1)}, "content", str(MAX_WRITE_BYTES)),
    ("write_file", {"path": "f/", "content": ""}, "path", "empty parts"),
)


@pytest.mark.parametrize(("tool", "arguments", "field", "why"), WRONG)
def test_wrong_arguments_are_refused_by_name(tool: str, arguments: JsonObject, field: str, why: str) -> None:
    shown = request_of(tool, arguments, "op", LIMITS)
    assert isinstance(shown, Shown)
    assert (shown.status, shown.code) == ("error", "bad_arguments")
    assert shown.message.startswith(f"{field}: ")
    assert why in shown.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(("command", "timeout_s", "path", "offset", "limit", "content")) | st.text(max_size=5)


@given(st.sampled_from(sorted(SANDBOX_TOOLS)), st.dictionaries(NAMES, JSON, max_size=4))
def test_whatever_is_sent_has_an_answer(tool: str, arguments: dict[str, Any]) -> None:
    answer = request_of(tool, arguments, "op", LIMITS)
    assert answer.code == "bad_arguments" if isinstance(answer, Shown) else answer.op_id == "op"


RUN = ExecRequest(op_id="op", argv=("/bin/sh", "-c", "ls"), timeout_s=1)


def shown_result(**fields: Any) -> JsonValue:
    shown = shown_of(RUN, SandboxReply(op_id="op", exec=ExecResult(**{"exit_code": 0, **fields})))
    assert shown.status == "ok"
    return shown.content


def test_a_command_s_end_is_shown_without_what_differs_between_equal_runs() -> None:
    plain = {"exit_code": 0, "stdout": "", "stderr": ""}
    assert shown_result(duration_s=1.5) == plain
    killed = {**plain, "exit_code": None, "signal": "SIGKILL"}
    ended = {"exit_code": None, "signal": "SIGKILL", "timed_out": True}
    assert shown_result(**ended, timeout_s=RUN.timeout_s) == killed | {"timed_out": True}
    assert shown_result(**ended, timeout_s=0.3) == killed | {
        "timed_out": True,
        "cut_short": "the episode's wall time ends",
    }
    assert shown_result(timeout_s=0.3) == plain, "it ended by itself"
    assert shown_result(exit_code=None, signal="SIGKILL", out_of_memory=True) == {
        **plain,
        "exit_code": None,
        "signal": "SIGKILL",
        "out_of_memory": True,
    }
    cut = Output(text="a…b", total_bytes=900, cut_bytes=800, invalid_utf8=True)
    assert shown_result(stdout=cut, stderr=Output(text="bad", total_bytes=3)) == {
        "exit_code": 0,
        "stdout": "a…b",
        "stderr": "bad",
        "stdout_cut_bytes": 800,
        "stdout_not_utf8": True,
    }


def test_a_command_has_no_more_time_than_is_left() -> None:
    for left_s, allowed_s in ((5, 1), (1, 1), (0.5, 0.5), (0, 0.1), (-3, 0.1)):
        assert in_time(RUN, left_s) == RUN.model_copy(update={"timeout_s": allowed_s})
        assert request_digest(in_time(RUN, left_s)) == request_digest(RUN), (
            "asked for again, it is the same command"
        )
    read = ReadRequest(op_id="op", path="f")
    assert in_time(read, 0) == read
    assert request_digest(RUN) != request_digest(RUN.model_copy(update={"argv": ("/bin/sh", "-c", "ls -l")}))


def test_an_error_of_the_sandbox_keeps_its_code() -> None:
    reply = SandboxReply(op_id="op", code="not_found", message="f: No such file or directory")
    assert shown_of(ReadRequest(op_id="op", path="f"), reply) == Shown(
        status="error", code="not_found", message="f: No such file or directory"
    )


def test_a_write_shows_its_size() -> None:
    request = WriteRequest(op_id="op", path="f", content=b"abc")
    shown = shown_of(request, SandboxReply(op_id="op", write=WriteResult(size=3)))
    assert (shown.status, shown.content) == ("ok", {"size": 3})


def read(whole: bytes, offset: int = 0, limit: int = 100) -> JsonValue:
    request = ReadRequest(op_id="op", path="f", offset=offset, limit=limit)
    piece = ReadResult(content=whole[offset : offset + limit], size=len(whole))
    return shown_of(request, SandboxReply(op_id="op", read=piece)).content


def test_a_piece_of_a_file_says_where_to_go_on() -> None:
    assert read(b"0123456789") == {"content": "0123456789", "size": 10}
    assert read(b"0123456789", offset=2, limit=3) == {"content": "234", "size": 10, "next_offset": 5}
    assert read(b"0123456789", offset=99) == {"content": "", "size": 10}
    assert read(b"") == {"content": "", "size": 0}


def test_bytes_that_are_no_text_are_replaced_and_said_so() -> None:
    assert read(b"a\xffb") == {"content": "a\ufffdb", "size": 3, "not_utf8": True}
    assert read("é".encode()[:1]) == {"content": "\ufffd", "size": 1, "not_utf8": True}


@given(st.text(max_size=60), st.integers(4, 9))
def test_pieces_of_a_text_are_the_text(text: str, limit: int) -> None:
    """A limit may fall into a character; what is shown never does."""
    whole, pieces, offset = text.encode(), [], 0
    while True:
        shown = read(whole, offset, limit)
        assert isinstance(shown, dict)
        assert "not_utf8" not in shown
        pieces.append(shown["content"])
        if "next_offset" not in shown:
            break
        assert isinstance(shown["next_offset"], int)
        assert shown["next_offset"] > offset
        offset = shown["next_offset"]
    assert "".join(map(str, pieces)) == text


def test_a_limit_below_one_character_gets_on_all_the_same() -> None:
    assert read("€€".encode(), limit=1) == {
        "content": "\ufffd",
        "size": 6,
        "next_offset": 1,
        "not_utf8": True,
    }
