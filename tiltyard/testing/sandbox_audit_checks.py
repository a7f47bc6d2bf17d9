"""Checks of the sandbox kit: what a sandbox tells of what was done in it."""

from schemas.base import sha256
from schemas.operation import ExecRequest, ExecResult
from schemas.sandbox import FileEntry, Snapshot
from schemas.sandbox_facts import SandboxFacts
from schemas.told import MarkedRead
from tiltyard.testing.sandbox_bench import Box, SandboxBench

KEY = b"the key is 17\n"
START = Snapshot(
    entries=tuple(
        FileEntry(path=path, content=content, size=len(content), digest=sha256(content))
        for path, content in {"key.txt": KEY, "plain.txt": b"plain\n"}.items()
    )
)
MARKED = {"key.txt": "key.txt"}


async def told(box: Box) -> SandboxFacts:
    """What it tells after its end."""
    await box.close()
    return await box.bench.soon(box.port.facts(box.ref))


async def python(box: Box, source: str) -> ExecResult:
    """Run a program in the sandbox's Python."""
    argv = ("python3", "-c", source)
    reply = await box.call(ExecRequest(op_id=f"python-{sha256(source.encode())}", argv=argv, timeout_s=60))
    assert reply.exec is not None, reply
    return reply.exec


async def whole_outputs_have_digests(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        result = await box.sh("echo said; echo complained >&2", op_id="a")
        await box.read("nothing")
        command, reading = (await told(box)).commands
        assert command.stdout is not None, command
        assert command.stderr is not None, command
        assert (command.stdout.digest, command.stdout.total_bytes) == (sha256(b"said\n"), 5), command
        assert (command.stderr.digest, command.stderr.total_bytes) == (sha256(b"complained\n"), 11), command
        assert result.stdout.digest == command.stdout.digest, "the reply tells another digest"
        assert (reading.stdout, reading.stderr) == (None, None), reading


async def programs_and_commands_have_times(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.sh("sleep 0.2; echo said", op_id="a")
        await box.sh("sleep 1000 & sleep 0.1", op_id="b")
        facts = await told(box)
        times = [(one.started_s, one.ended_s) for one in facts.commands]
        for began, ended in [*times, *((one.started_s, one.ended_s) for one in facts.processes)]:
            assert began is not None, "nobody knows when something started"
            assert ended is None or 0 <= began <= ended, (began, ended)
        first, second = facts.commands
        assert first.ended_s is not None
        assert second.started_s is not None
        assert first.ended_s <= second.started_s, facts.commands
        (short,) = [one for one in facts.processes if one.argv == ("sleep", "0.2")]
        assert short.ended_s is None or short.ended_s - (short.started_s or 0) >= 0.2, short
        for long in [one for one in facts.processes if one.argv == ("sleep", "1000")]:  # a slow one never became it
            assert long.ended_s is None or second.ended_s is None or long.ended_s >= second.ended_s, (
                "it was left behind"
            )


async def a_driver_says_what_it_tells(bench: SandboxBench) -> None:
    async with bench.sandbox(start=START, marked=MARKED) as box:
        await box.sh("cat key.txt")
        sees, facts = (await bench.port.offer(bench.driver)).sees, await told(box)
        assert (facts.watched == "every_exec") == ("every_exec" in sees), (facts.watched, sees)
        assert (not facts.unwatched) == bool(facts.marked_reads) == ("marked_reads" in sees), (facts, sees)


def who(found: tuple[MarkedRead, ...]) -> list[tuple[str, str, int]]:
    return [(one.path, one.op_id, one.incarnation) for one in found]


async def reads_of_marked_files_are_told(bench: SandboxBench) -> None:
    async with bench.sandbox(start=START, marked=MARKED) as box:
        await box.sh("cat plain.txt; ls", op_id="before")
        await box.snapshot()
        await box.sh("cat key.txt", op_id="cat")
        await box.sh("echo after", op_id="after")
        await box.read("key.txt", op_id="tool")
        await box.write("key.txt", b"mine", op_id="writing")
        facts = await told(box)
        await box.snapshot()
        assert who(facts.marked_reads) == [("key.txt", "cat", 1), ("key.txt", "tool", 1)], facts.marked_reads
        assert (facts.unwatched, facts.reads_lost, facts.marked_reads_not_kept) == ((), False, 0)
        assert all(one.opens and one.reads for one in facts.marked_reads), facts.marked_reads


async def what_is_not_marked_is_not_told(bench: SandboxBench) -> None:
    async with bench.sandbox(start=START) as box:
        await box.sh("cat key.txt plain.txt")
        facts = await told(box)
        assert (facts.marked_reads, facts.unwatched, facts.connections) == ((), (), ())


async def marks_are_set_again_in_the_next_incarnation(bench: SandboxBench) -> None:
    async with bench.sandbox(start=START, marked=MARKED) as box:
        moved = Snapshot(entries=(START.entries[1], START.entries[0].model_copy(update={"path": "x"})))
        later = box.again(start=moved, marked={"x": "key.txt"})
        await later.provision()
        await later.sh("cat x", op_id="a")
        assert who((await told(later)).marked_reads) == [("key.txt", "a", 2)]


async def a_marked_file_is_followed(bench: SandboxBench) -> None:
    ways = {
        "moved": "mv key.txt x; cat x; mv x key.txt",
        "linked": "ln key.txt x; cat x; rm x",
        "pointed": "ln -s key.txt x; cat x; rm x",
        "copied": "cp key.txt x; rm x",
        "closed": "chmod 0 key.txt; chmod 600 key.txt; cat key.txt",
        "background": "(cat key.txt >/dev/null &); sleep 0.2",
        "mapped": "python3 -c \"import mmap; f = open('key.txt'); mmap.mmap(f.fileno(), 0, prot=1)[:]\"",
    }
    async with bench.sandbox(start=START, marked=MARKED) as box:
        for name, script in ways.items():
            await box.sh(script, op_id=name)
        facts = await told(box)
        assert [one.op_id for one in facts.marked_reads] == list(ways), facts.marked_reads


LOOKING = """
import os
for process in [name for name in os.listdir("/proc") if name.isdigit()]:
    for folder in ("fdinfo", "fd"):
        try:
            names = os.listdir(f"/proc/{process}/{folder}")
        except OSError:
            continue
        for name in names:
            place = f"/proc/{process}/{folder}/{name}"
            try:
                found = open(place).read(4096) if folder == "fdinfo" else os.readlink(place)
            except OSError:
                continue
            if "inotify" in found:
                print(place, found)
"""


async def nobody_inside_sees_the_marks(bench: SandboxBench) -> None:
    """The kernel says of a watch which file it is on, in the ``fdinfo`` of whoever has it."""
    async with bench.sandbox(start=START, marked=MARKED) as box:
        seen = await python(box, LOOKING)
        assert (seen.exit_code, seen.stdout.text) == (0, ""), seen
        closed = await python(box, "import os; os.listdir('/proc/1/fdinfo'); open('/proc/1/fdinfo/0')")
        assert "PermissionError" in closed.stderr.text, closed


REACHING = """
import socket
def tries(call, *arguments):
    try:
        call(*arguments)
    except OSError:
        pass
tries(socket.create_connection, ("192.0.2.1", 443), 5)
tries(socket.socket(type=socket.SOCK_DGRAM).sendto, b"x", ("192.0.2.2", 9))
tries(socket.getaddrinfo, "no-such-host.example", 80)
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).sendall(b"x")
"""


async def attempts_to_reach_somebody_are_told(bench: SandboxBench) -> None:
    """They fail, and are seen: also the name that was asked for, of a name server that is not there."""
    async with bench.sandbox() as box:
        assert (await python(box, REACHING)).exit_code == 0
        facts = await told(box)
        if facts.watched == "snapshots":
            return  # where the kernel does not tell of programs it does not tell of this either
        found = {(one.address, one.port) for one in facts.connections if one.port != 53}
        assert found == {("192.0.2.1", 443), ("192.0.2.2", 9)}, facts.connections
        assert {one.name for one in facts.connections if one.port == 53} == {"no-such-host.example"}
        assert all(one.op_id and one.incarnation == 1 for one in facts.connections), facts.connections


AUDIT_CHECKS = (
    whole_outputs_have_digests,
    programs_and_commands_have_times,
    reads_of_marked_files_are_told,
    what_is_not_marked_is_not_told,
    a_driver_says_what_it_tells,
    marks_are_set_again_in_the_next_incarnation,
)

PROCESS_AUDIT_CHECKS = (
    a_marked_file_is_followed,
    nobody_inside_sees_the_marks,
    attempts_to_reach_somebody_are_told,
)
"""Those that need real processes, isolated from the machine."""
