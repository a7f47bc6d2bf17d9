"""Checks of the sandbox kit: commands, each run once."""

import asyncio

from tiltyard.errors import DeliveryConflict
from tiltyard.testing.sandbox_bench import Box, SandboxBench, refuses

OF_THE_SHELL = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})
"""What shells add to the environment by themselves."""

USUAL = frozenset({"PATH", "HOME", "LANG", "LC_ALL", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR"})
"""What a driver may give to every command."""


async def lines(box: Box, path: str) -> int:
    return (await box.files())[path].count(b"\n")


async def exit_codes_come_back(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        for script, code in {"true": 0, "false": 1, "exit 3": 3, "exit 3; true": 3, "false; true": 0}.items():
            result = await box.sh(script)
            assert (result.exit_code, result.signal, result.timed_out) == (code, "", False), f"{script}: {result}"


async def both_outputs_come_back(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        result = await box.sh("echo out; echo err >&2; echo 'out again'")
        assert (result.stdout.text, result.stderr.text) == ("out\nout again\n", "err\n"), result
        assert (result.stdout.total_bytes, result.stdout.cut_bytes, result.stdout.invalid_utf8) == (14, 0, False)


async def input_is_read(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        sent = b"one\ntwo\n" * 20_000
        result = await box.sh("cat > copy", stdin=sent)
        assert result.exit_code == 0, result
        assert await lines(box, "copy") == 40_000
        assert (await box.sh("cat")).stdout.text == "", "a command without input has to find its end"


async def the_environment_is_what_was_ordered(bench: SandboxBench) -> None:
    async with bench.sandbox(environment={"GREETING": "good day", "LANG": "C"}) as box:
        printed = dict(line.split("=", 1) for line in (await box.out("env")).splitlines())
        assert printed["GREETING"] == "good day"
        assert printed["LANG"] == "C"
        assert printed["PATH"], "commands are found on a PATH"
        foreign = printed.keys() - {"GREETING"} - USUAL - OF_THE_SHELL
        assert not foreign, f"variables that nobody ordered: {foreign}"


async def an_operation_runs_once(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        results = [await box.sh("echo ran >> log; echo said; exit 4", op_id="once") for _ in range(3)]
        assert all(result == results[0] for result in results), f"the recorded result changed: {results}"
        assert (results[0].exit_code, results[0].stdout.text) == (4, "said\n")
        assert await lines(box, "log") == 1, "it ran again"


async def all_who_ask_at_once_share_one_run(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        asked = (box.sh("sleep 0.2; echo ran >> log; echo said", op_id="shared") for _ in range(4))
        results = await asyncio.gather(*asked)
        assert all(result == results[0] for result in results), f"they were told different results: {results}"
        assert await lines(box, "log") == 1, "it ran more than once"


async def a_running_operation_is_attached_to(bench: SandboxBench) -> None:
    """Also by somebody whose predecessor went away: the operation goes on without being listened to."""
    script = "echo begun >> log; sleep 0.5; echo ended >> log; echo said"
    async with bench.sandbox() as box:
        first = asyncio.create_task(box.sh(script, op_id="long"))
        await box.appears("log")
        first.cancel()
        await asyncio.wait([first])
        assert (await box.sh(script, op_id="long")).stdout.text == "said\n"
        assert await box.content("log") == b"begun\nended\n", "it was started again, or did not end"


async def another_request_under_the_same_id_is_a_conflict(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.sh("echo first >> log", op_id="same")
        await refuses(DeliveryConflict, box.sh("echo second >> log", op_id="same"))
        await refuses(DeliveryConflict, box.write("log", b"third", op_id="same"))
        assert await box.content("log") == b"first\n"


async def the_same_command_with_another_time_is_the_same(bench: SandboxBench) -> None:
    """What is left for it may have become less, or more, since it was first asked for: the first time counts."""
    async with bench.sandbox() as box:
        ended = await box.sh("echo ran >> log", op_id="ended", timeout_s=30)
        assert ended.timeout_s == 30
        for again_s in (0.1, 20):
            assert await box.sh("echo ran >> log", op_id="ended", timeout_s=again_s) == ended
        script = "echo begun > begun; sleep 0.5; echo ran >> log; echo said"
        first = asyncio.create_task(box.sh(script, op_id="running", timeout_s=30))
        await box.appears("begun")
        again = await box.sh(script, op_id="running", timeout_s=0.1)
        assert again == await first
        assert (again.stdout.text, again.timed_out, again.timeout_s) == ("said\n", False, 30), again
        assert await lines(box, "log") == 2, "it ran again"


async def operations_of_two_sandboxes_have_nothing_in_common(bench: SandboxBench) -> None:
    async with bench.sandbox() as one, bench.sandbox() as other:
        await one.sh("echo canary > file", op_id="same")
        assert await other.out("ls") == "", "files of another sandbox are seen"
        await other.sh("echo other > file", op_id="same")
        assert await one.content("file") == b"canary\n"
        assert await other.content("file") == b"other\n", "an id of one sandbox counts in another"


async def long_output_keeps_its_ends(bench: SandboxBench) -> None:
    limits = bench.order().limits.model_copy(update={"output_bytes": 2048})
    async with bench.sandbox(limits=limits) as box:
        long = b"".join(b"%07d\n" % number for number in range(4096))
        await box.put("long", long)
        out = (await box.sh("cat long")).stdout
        assert (out.total_bytes, out.invalid_utf8) == (len(long), False)
        assert len(long) - 2048 <= out.cut_bytes < len(long), f"{out.cut_bytes} bytes are said to be cut"
        assert out.text.startswith("0000000\n0000001\n"), "the beginning is not kept"
        assert out.text.endswith("0004094\n0004095\n"), "the end is not kept"
        assert len(out.text) < 2048 + 200, "more is kept than the limit"
        assert str(out.cut_bytes) in out.text, "the text does not say how much was cut"


async def output_that_is_no_text_is_flagged(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        await box.put("bytes", b"ok \xff\xfe ok\n")
        out = (await box.sh("cat bytes")).stdout
        assert (out.invalid_utf8, out.total_bytes) == (True, 9), out
        assert out.text.startswith("ok \ufffd"), out
        await box.put("text", "schön\n".encode())
        assert not (await box.sh("cat text")).stdout.invalid_utf8


async def a_timeout_kills_all_that_the_command_started(bench: SandboxBench) -> None:
    async with bench.sandbox() as box:
        result = await box.sh("echo begun; sleep 1000 & sleep 1000", timeout_s=0.5)
        assert (result.timed_out, result.exit_code) == (True, None), result
        assert result.signal == "SIGKILL", result
        assert result.stdout.text == "begun\n", "what it said before is lost"
        assert await box.settle(30), "something of it goes on"
        assert (await box.sh("true")).exit_code == 0, "the sandbox is of no use afterwards"


async def a_background_child_does_not_hold_the_call(bench: SandboxBench) -> None:
    """It holds the outputs open; the call ends with the shell."""
    async with bench.sandbox() as box:
        result = await box.sh("sleep 1000 & echo said")
        assert (result.exit_code, result.stdout.text, result.timed_out) == (0, "said\n", False), result


COMMAND_CHECKS = (
    exit_codes_come_back,
    both_outputs_come_back,
    input_is_read,
    the_environment_is_what_was_ordered,
    an_operation_runs_once,
    all_who_ask_at_once_share_one_run,
    a_running_operation_is_attached_to,
    another_request_under_the_same_id_is_a_conflict,
    the_same_command_with_another_time_is_the_same,
    operations_of_two_sandboxes_have_nothing_in_common,
    long_output_keeps_its_ends,
    output_that_is_no_text_is_flagged,
    a_timeout_kills_all_that_the_command_started,
    a_background_child_does_not_hold_the_call,
)
