"""Logs: bounded, read from the end, followed across a rotation."""

from pathlib import Path

from infra.local.logs import follow, rotate, tail


def test_the_tail_is_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    assert tail(log, 3) == []
    log.write_text("".join(f"line {n}\n" for n in range(10)))
    assert tail(log, 2) == ["line 8", "line 9"]
    assert tail(log, 0) == []


def test_bytes_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_bytes(b"\xff\xfe broken\n")
    assert "broken" in tail(log, 1)[0]


def test_a_log_past_its_limit_is_kept_once_and_goes_on_for_its_writer(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with log.open("ab") as writer:
        writer.write(b"x" * 100 + b"\n")
        writer.flush()
        rotate(log, limit_bytes=1000)
        assert log.stat().st_size == 101, "below the limit nothing happens"
        rotate(log, limit_bytes=100)
        writer.write(b"after\n")
        writer.flush()
    assert log.read_bytes() == b"after\n"
    assert (tmp_path / "worker.log.1").stat().st_size == 101


def test_following_gives_whole_new_lines_and_survives_a_rotation(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text("new\nhal")
    lines = follow({"worker": log, "world": tmp_path / "absent.log"}, every_s=0, from_end=False)
    assert next(lines) == ("worker", "new")
    with log.open("a") as writer:
        writer.write("f\n")
    assert next(lines) == ("worker", "half")
    rotate(log, limit_bytes=0)
    with log.open("a") as writer:
        writer.write("n\n")
    assert next(lines) == ("worker", "n")
