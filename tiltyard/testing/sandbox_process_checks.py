"""Checks of the sandbox kit that need real processes: what an agent's commands do to the one who runs them."""

from schemas.operation import ExecRequest
from tiltyard.testing.sandbox_bench import SandboxBench


async def a_signal_is_told_by_name(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        result = await box.sh("kill -9 $$")
        assert (result.exit_code, result.signal, result.timed_out) == (None, "SIGKILL", False), result


async def a_program_that_is_not_there_cannot_start(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        reply = await box.call(ExecRequest(op_id="none", argv=("/no/such/program",), timeout_s=5))
        assert (reply.code, reply.exec) == ("cannot_start", None), reply
        assert "/no/such/program" in reply.message, reply
        assert (await box.sh("no-such-command")).exit_code == 127


async def arguments_arrive_as_they_are(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        argv = ("/bin/sh", "-c", 'printf "%s|" "$@"', "sh", "a b", "", "*", "$HOME", "é", "-n")
        reply = await box.call(ExecRequest(op_id="arguments", argv=argv, timeout_s=30))
        assert reply.exec is not None, reply
        assert reply.exec.stdout.text == "a b||*|$HOME|é|-n|", reply


async def commands_have_no_open_files_of_their_host(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        found = await box.out("for fd in /proc/self/fd/*; do echo ${fd##*/}; done")
        # The shell's own directory handle may be there; a control socket or a journal would be one more.
        assert set(found.split()) <= {"0", "1", "2", "3"}, found


async def closed_outputs_hurt_nobody(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        assert (await box.sh("exec 0<&- 1>&- 2>&-; sleep 0.1; exit 5")).exit_code == 5
        assert (await box.sh("echo said")).stdout.text == "said\n"


async def a_flood_is_drained_past_its_limit(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        result = await box.sh("head -c 20000000 /dev/zero; exit 6")
        limit = box.order.limits.output_bytes
        assert (result.exit_code, result.stdout.total_bytes) == (6, 20_000_000), "it was held up or cut off"
        assert len(result.stdout.text) < limit + 200, "more is kept than the limit"


async def endless_output_ends_at_the_timeout(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        result = await box.sh("while :; do echo y; done", timeout_s=0.5)
        assert result.timed_out, result
        assert result.stdout.total_bytes > 0


async def a_daemon_is_found_and_ended(bench: SandboxBench) -> None:
    """Two forks and a session of its own: it has left everything that a group or a session would reach."""
    async with bench.sandbox() as box:
        await box.sh("(setsid sleep 1000 >/dev/null 2>&1 </dev/null &) ; exit 0", op_id="daemon")
        assert not await box.settle(0.5), "a daemon is not seen"
        await bench.soon(bench.port.seal(box.ref))
        drain = await bench.soon(bench.port.drain(box.ref))
        assert (drain.found, drain.empty) == (1, True), drain
        left = [one for one in (await bench.port.facts(box.ref)).processes if one.left]
        assert [(one.argv, one.op_id) for one in left] == [(("sleep", "1000"), "daemon")], left


async def zombies_are_collected(bench: SandboxBench) -> None:
    """More children than the limit of processes, each of them ended and orphaned."""
    async with bench.sandbox() as box:
        script = "i=0; while [ $i -lt 200 ]; do (sleep 0 &); i=$((i+1)); done; echo done"
        assert (await box.sh(script)).stdout.text == "done\n"
        assert await box.settle(30)
        assert (await box.sh("echo said")).stdout.text == "said\n"


async def special_files_are_named_and_never_opened(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.sh("mkfifo pipe; echo text > file; mkdir -p deep; mkfifo deep/pipe")
        assert (await box.read("pipe")).code == "not_a_file"
        assert (await box.write("pipe", b"x")).code == "not_a_file"
        snapshot = await box.snapshot()
        assert {entry.path for entry in snapshot.entries if entry.kind == "file"} == {"file"}
        assert len(snapshot.skipped) == 2, snapshot.skipped
        assert all("pipe" in line for line in snapshot.skipped), snapshot.skipped


async def what_is_closed_to_its_owner_is_copied_and_comes_back(bench: SandboxBench) -> None:
    script = (
        "echo key > key; mkdir -p d/e; echo in > d/e/in; echo '#!/bin/sh' > run; "
        "chmod 0 key d/e; chmod 300 d; chmod 311 run; chmod 0 ."
    )
    modes = {"d": 0o300, "d/e": 0, "d/e/in": 0o644, "key": 0, "run": 0o311}
    async with bench.sandbox() as box:
        await box.sh(script)
        for _ in range(2):  # the copy leaves everything as it was
            kept = await box.snapshot()
            assert kept.skipped == ()
            assert {entry.path: entry.mode for entry in kept.entries} == modes
        contents = {entry.path: entry.content for entry in kept.entries if entry.kind == "file"}
        assert contents == {"d/e/in": b"in\n", "key": b"key\n", "run": b"#!/bin/sh\n"}
        await box.close()
        assert await box.snapshot() == kept
        later = box.again(start=kept)
        await later.provision()
        assert await later.snapshot() == kept


async def a_snapshot_stops_nothing_for_good(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.sh("(i=0; while [ $i -lt 20 ]; do i=$((i+1)); sleep 0.02; done; echo done > file) &")
        for _ in range(5):
            await box.snapshot()
        assert await box.settle(60), "it was frozen and never thawed"
        assert await box.content("file") == b"done\n"


PROCESS_CHECKS = (
    a_signal_is_told_by_name,
    a_program_that_is_not_there_cannot_start,
    arguments_arrive_as_they_are,
    commands_have_no_open_files_of_their_host,
    closed_outputs_hurt_nobody,
    a_flood_is_drained_past_its_limit,
    endless_output_ends_at_the_timeout,
    a_daemon_is_found_and_ended,
    zombies_are_collected,
    special_files_are_named_and_never_opened,
    what_is_closed_to_its_owner_is_copied_and_comes_back,
    a_snapshot_stops_nothing_for_good,
)
