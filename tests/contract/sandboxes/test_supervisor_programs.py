"""Programs that the supervisor has seen: each one, by whichever command, with its arguments."""

from pathlib import Path
from typing import Any

import pytest

from schemas.sandbox_facts import SandboxFacts
from schemas.told import ProcessRecord
from tests.contract.sandboxes.supervised import NO_LISTENER, Supervised, changed, supervised


async def facts(den: Supervised) -> SandboxFacts:
    await den.link.ask("seal")
    await den.link.ask("drain", term_s=60)
    return await den.facts()


def by(records: tuple[ProcessRecord, ...], op_id: str) -> list[tuple[str, ...]]:
    return [record.argv for record in records if record.op_id == op_id]


async def each_program_is_seen_with_its_arguments(den: Supervised) -> None:
    script = 'for i in 1 2; do /bin/true "a b" "" é $i; done; exec /bin/sh -c "cat /dev/null | env -i /bin/true; :"'
    await den.sh(script, op_id="a")
    records = (await facts(den)).processes
    seen = by(records, "a")
    assert seen[:3] == [
        ("/bin/sh", "-c", script),
        ("/bin/true", "a b", "", "é", "1"),
        ("/bin/true", "a b", "", "é", "2"),
    ]
    assert ("cat", "/dev/null") in seen
    assert seen.count(("/bin/true",)) == seen.count(("env", "-i", "/bin/true")) == 1
    leader = records[0].pid
    assert [record.parent for record in records[1:3]] == [leader, leader]
    assert records[0].parent == den.process.pid
    assert not any(record.left for record in records)


async def what_is_left_is_told(den: Supervised) -> None:
    await den.sh("sleep 0.01; (setsid sleep 1000 </dev/null >/dev/null 2>&1 &) & wait", op_id="a")
    await den.sh("echo > on; exec sleep 2000 >/dev/null 2>&1 </dev/null &", op_id="b")
    await den.appears("on")
    await den.sh("sleep 0.1")
    records = (await facts(den)).processes
    assert sorted((record.argv, record.op_id) for record in records if record.left) == [
        (("sleep", "1000"), "a"),
        (("sleep", "2000"), "b"),
    ]


async def a_search_of_the_path_is_no_program(den: Supervised) -> None:
    """``execvp`` of libc and of Python tries one folder after the other."""
    script = "import os\nos.environ['PATH'] = '/nowhere:/etc:/usr/bin'\nos.execvp('true', ['true', 'x'])"
    await den.python(script, op_id="a")
    assert by((await facts(den)).processes, "a")[1:] == [("true", "x")]


async def programs_from_threads_and_descriptors_are_seen(den: Supervised) -> None:
    script = (
        "import os, threading\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    t = threading.Thread(target=os.execv, args=('/bin/true', ['from-a-thread'])); t.start(); t.join()\n"
        "print(os.wait()[0], flush=True)\n"
        "fd = os.open('/bin/true', os.O_RDONLY)\n"
        "os.execve(fd, ['from-a-descriptor'], {})\n"
    )
    child = int(await den.python(script, op_id="a"))
    records = (await facts(den)).processes
    assert by(records, "a")[1:] == [("from-a-thread",), ("from-a-descriptor",)]
    assert records[1].pid == child, "a thread is taken for a process"


async def long_arguments_are_cut(den: Supervised) -> None:
    await den.run(
        "/bin/sh", "-c", "/bin/true $(seq 200); /bin/true $(head -c 10000 /dev/zero | tr '\\0' x)", op_id="a"
    )
    seen = by((await facts(den)).processes, "a")
    many, long = (argv for argv in seen if argv[0] == "/bin/true")
    assert many == ("/bin/true", *map(str, range(1, 64)))
    assert long == ("/bin/true", "x" * 4096)


async def what_cannot_start_is_no_program(den: Supervised) -> None:
    (den.work / "odd").write_text("no program")
    (den.work / "odd").chmod(0o755)
    for program in ("./odd", "./none", "none"):
        assert (await den.run(program)).code == "cannot_start"
    assert (await facts(den)).processes == ()


CHECKS = (
    each_program_is_seen_with_its_arguments,
    what_is_left_is_told,
    a_search_of_the_path_is_no_program,
    programs_from_threads_and_descriptors_are_seen,
    long_arguments_are_cut,
    what_cannot_start_is_no_program,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_programs(check: Any, tmp_path: Path) -> None:
    async with supervised(tmp_path) as den:
        await check(den)
        assert (await den.facts()).watched == "every_exec"


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (each_program_is_seen_with_its_arguments, *NO_LISTENER),
        (what_is_left_is_told, "programs.look_around(self.sandbox.reach.others(), left=True)", "pass"),
        (a_search_of_the_path_is_no_program, "return argv if may_exec(pid, folder, path) else None", "return argv"),
        (programs_from_threads_and_descriptors_are_seen, "look(process_of(pid)) if task is not None", "task if 1"),
        (
            programs_from_threads_and_descriptors_are_seen,
            "    is_at = call_of(notice) in EXECVEAT",
            "    is_at = False",
        ),
        (what_cannot_start_is_no_program, "            sandbox.programs.forget(self.pid)\n", ""),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_supervisor_that_looks_away_is_caught(check: Any, old: str, new: str, tmp_path: Path) -> None:
    async with supervised(tmp_path, changed(old, new, tmp_path)) as den:
        with pytest.raises((AssertionError, ValueError)):
            await check(den)


async def test_where_the_machine_does_not_tell_it_is_looked(tmp_path: Path) -> None:
    async with supervised(tmp_path, changed(*NO_LISTENER, tmp_path)) as den:
        await den.sh("exit 3", op_id="a")
        await den.run("./none", op_id="none")
        await den.sh("echo > on; exec sleep 1000 >/dev/null 2>&1 &", op_id="b")
        await den.appears("on")
        told = await facts(den)
        assert told.watched == "snapshots"
        assert by(told.processes, "a") == [("/bin/sh", "-c", "exit 3")]
        assert by(told.processes, "none") == []
        assert [record.op_id for record in told.processes if record.left] == ["b"]


async def test_what_is_too_much_is_counted(tmp_path: Path) -> None:
    names = "MAX_PROGRAMS, MAX_PROGRAM_BYTES, MAX_ARGUMENTS, MAX_ARGUMENT_BYTES"
    program = changed(f"{names} = 10_000", f"{names} = 5", tmp_path)
    async with supervised(tmp_path, program) as den:
        await den.sh("for i in 1 2 3 4 5 6 7 8 9; do /bin/true $i; done")
        told = await facts(den)
        assert len(told.processes) == 5
        assert told.processes_not_kept == 1 + 9 - 5
