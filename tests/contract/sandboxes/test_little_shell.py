"""The fake's shell against a real one: what it takes, both do alike; what it does not know, it refuses."""

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.operation import ExecRequest
from tiltyard.errors import BadInput
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.sandbox_bench import SandboxBench

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}

Outcome = tuple[int | None, str, bool, dict[str, bytes]]
"""Exit code, output, whether something was said on the error output (shells word it differently), files."""

CANNOT_REDIRECT = 2
"""What some shells end with when an output cannot be opened; others, and the fake, with 1."""


def of_a_real_shell(script: str) -> Outcome:
    with TemporaryDirectory() as folder:
        argv = ["/bin/sh", "-c", script]
        ended = subprocess.run(argv, cwd=folder, env=ENVIRONMENT, capture_output=True, timeout=60, text=True)
        left = [path for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink()]
        files = {str(path.relative_to(folder)): path.read_bytes() for path in left}
    code = 1 if ended.returncode == CANNOT_REDIRECT else ended.returncode
    return code, ended.stdout, bool(ended.stderr), files


async def of_the_fake(script: str) -> Outcome:
    async with SandboxBench(MemorySandboxes(), "bubblewrap").sandbox() as box:
        result = await box.sh(script)
        return result.exit_code, result.stdout.text, bool(result.stderr.text), await box.files()


SCRIPTS = (
    "echo one; echo two >&2\necho 'three  four' \"five\"",
    "false && echo no; echo yes && false",
    "true && exit 3; echo never",
    "exit 300",
    "echo a > f && echo b >> f; echo c >> g; cat f g h; echo end",
    "mkdir -p d/e; echo x > d/e/f; ls; cat d/e/f; rm d/e/f; rm d/e/f; rm d",
    "echo x > d/f; ls",
    "cat; ls > listing; cat listing",
    "echo x > f; echo y > f/g",
    "ln -s f l; ls; rm l; ls; ln -s f g; ln -s f g",
    "cat d; mkdir -p d; cat d; echo x > d",
    "true &&\n echo joined\n\n",
    "echo kept > f; false > f; cat f",
)


@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_real_shell_does_the_same(script: str) -> None:
    assert await of_the_fake(script) == of_a_real_shell(script)


PATHS = st.sampled_from(("f", "g", "d", "d/f", "d/e"))
WORDS = st.sampled_from(("a", "'b  c'", '"d"', "e.f/g", "x=1"))
COMMANDS = st.one_of(
    st.lists(WORDS, max_size=3).map(lambda words: " ".join(["echo", *words])),
    st.lists(PATHS, max_size=2).map(lambda paths: " ".join(["cat", *paths])),
    st.lists(PATHS, min_size=1, max_size=2).map(lambda paths: " ".join(["rm", *paths])),
    PATHS.map(lambda path: f"mkdir -p {path}"),
    st.sampled_from(("ls", "true", "false")),
)
REDIRECTS = st.one_of(st.just(""), PATHS.map(lambda path: f" > {path}"), PATHS.map(lambda path: f" >> {path}"))


def redirected(command: str, redirect: str) -> str:
    """To a file that the command does not name itself: systems do not agree on that."""
    return command + redirect if redirect.split()[-1:] not in [[word] for word in command.split()] else command


STATEMENTS = st.tuples(
    st.one_of(st.builds(redirected, COMMANDS, REDIRECTS), st.just("exit 4")), st.sampled_from(("; ", "\n", " && "))
)


def joined(statements: Sequence[tuple[str, str]]) -> str:
    return "".join(map("".join, statements)) + "true"


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STATEMENTS, min_size=1, max_size=6).map(joined))
def test_any_script_does_the_same(script: str) -> None:
    assert asyncio.run(of_the_fake(script)) == of_a_real_shell(script)


REFUSED = (
    "if true; then echo x; fi",
    "echo $HOME",
    "echo `ls`",
    "echo a | cat",
    "echo *",
    "echo -n x",
    "ls -l",
    "cat /etc/passwd",
    "cat ../x",
    "cat d/..",
    "echo x > /tmp/f",
    "echo x > f > g",
    "> f",
    "A=1",
    "python3 x.py",
    "echo a;; echo b",
    "true &&",
    "echo 'open",
    "sleep forever",
    "mkdir d",
    "exit 1 > f",
    "cat f >> f",
)


@pytest.mark.parametrize("script", REFUSED)
async def test_what_it_does_not_know_is_refused_before_anything_runs(script: str) -> None:
    port = MemorySandboxes()
    async with SandboxBench(port, "bubblewrap").sandbox() as box:
        with pytest.raises(BadInput, match="the fake's shell cannot run") as caught:
            await box.sh(f"echo begun > begun\n{script}", op_id="op")
        assert (caught.value.field, bool(caught.value.fix)) == ("argv", True)
        assert await box.files() == {}
    assert not port.executions


async def test_programs_of_a_test_s_own() -> None:
    port = MemorySandboxes(programs={"count": lambda argv, stdin, files: (len(argv), stdin.decode())})
    async with SandboxBench(port, "bubblewrap").sandbox() as box:
        assert (await box.sh("count a b > f", stdin=b"in")).exit_code == 3
        assert await box.content("f") == b"in"
        reply = await box.call(ExecRequest(op_id="alone", argv=("count",), timeout_s=1, stdin=b"alone"))
        assert reply.exec is not None
        assert (reply.exec.exit_code, reply.exec.stdout.text) == (1, "alone")
        with pytest.raises(BadInput, match="cannot run 'other'"):
            await box.call(ExecRequest(op_id="other", argv=("other",), timeout_s=1))
