"""A supervisor that outlives its host: hosts come and go, and between two sandboxes nothing of it is left."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from infra.sandboxes.compiled import write_supervisor
from infra.sandboxes.link import Link
from schemas.sandbox import Snapshot
from tests.contract.sandboxes.supervised import Supervised
from tiltyard.errors import BadInput, DeliveryConflict, LateWrite, SandboxLost


@contextmanager
def listening(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    (folder / "work").mkdir()
    program = write_supervisor(folder)
    command = [sys.executable, "-I", "-S", str(program), str(folder / "door"), str(folder / "journal")]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def visit(folder: Path, process: "subprocess.Popen[bytes]") -> AsyncIterator[Supervised]:
    while not (folder / "door").exists():
        await asyncio.sleep(0.005)
    door = socket.socket(socket.AF_UNIX)
    door.connect(str(folder / "door"))
    link = await Link.over(door, lambda: SandboxLost("it has hung up"))
    try:
        yield Supervised(link, process, folder)
    finally:
        link.close()


async def test_a_command_outlives_its_host_and_is_found_again(tmp_path: Path) -> None:
    with listening(tmp_path) as process:
        async with visit(tmp_path, process) as den:
            await den.setup()
            script = "echo on >> on; while [ ! -e go ]; do sleep 0.01; done; echo done"
            asked = asyncio.create_task(den.sh(script, op_id="long"))
            await den.appears("on")
        with pytest.raises(SandboxLost):
            await asked
        async with visit(tmp_path, process) as den:
            again = asyncio.create_task(den.sh(script, op_id="long"))
            (den.work / "go").touch()
            assert (await again).stdout.text == "done\n"
            assert (den.work / "on").read_text() == "on\n", "it ran once"


async def test_what_ends_while_nobody_is_there_is_recorded(tmp_path: Path) -> None:
    with listening(tmp_path) as process:
        async with visit(tmp_path, process) as den:
            await den.setup()
            many = [
                asyncio.create_task(den.sh("echo x > $$.on; sleep 0.2; echo done", op_id=f"{number}"))
                for number in range(20)
            ]
            while len(list(den.work.glob("*.on"))) < 20:
                await asyncio.sleep(0.005)
        await asyncio.gather(*many, return_exceptions=True)
        await asyncio.sleep(0.4)
        async with visit(tmp_path, process) as den:
            script = "echo x > $$.on; sleep 0.2; echo done"
            ended = [await den.sh(script, op_id=f"{number}") for number in range(20)]
            assert [one.stdout.text for one in ended] == ["done\n"] * 20
            assert len(list(den.work.glob("*.on"))) == 20
            with pytest.raises(DeliveryConflict):
                await den.sh("other", op_id="3")


async def test_the_newest_host_is_the_one_that_is_spoken_with(tmp_path: Path) -> None:
    with listening(tmp_path) as process:
        async with visit(tmp_path, process) as den:
            await den.setup()
            waiting = asyncio.create_task(den.link.ask("settle", limit_s=60))
            await den.sh("sleep 1000 &")
            async with visit(tmp_path, process) as newer:
                assert (await newer.sh("echo hi", op_id="newer")).stdout.text == "hi\n"
                with pytest.raises(SandboxLost):
                    await waiting
                with pytest.raises(SandboxLost):
                    await den.sh("echo hi")


async def closed(den: Supervised) -> None:
    await den.link.ask("seal")
    await den.link.ask("drain", term_s=0.2)


async def test_a_renewed_one_knows_nothing_of_the_one_before(tmp_path: Path) -> None:
    with listening(tmp_path) as process:
        async with visit(tmp_path, process) as den:
            await den.setup(environment={"SECRET": "first"})
            await den.sh("echo first > first; sleep 1000 &", op_id="same")
            await closed(den)
            with pytest.raises(LateWrite):
                await den.sh("echo late")
            await den.link.ask("renew", journal=str(tmp_path / "second"))
            os.rename(tmp_path / "work", tmp_path / "before")
            (tmp_path / "work").mkdir()
            with pytest.raises(BadInput):
                await den.sh("echo not yet")
            await den.setup()
            assert await den.snapshot() == Snapshot()
            assert await den.out("echo ${SECRET-nothing}; ls", op_id="same") == "nothing\n"
            await closed(den)
            facts = await den.facts()
            assert [one.op_id for one in facts.commands] == ["same"]
            assert all("sleep" not in one.argv for one in facts.processes)
            assert b"first" not in (tmp_path / "second").read_bytes()


async def test_one_that_is_not_drained_is_not_renewed(tmp_path: Path) -> None:
    with listening(tmp_path) as process:
        async with visit(tmp_path, process) as den:
            await den.setup()
            await den.link.ask("seal")
            with pytest.raises(BadInput, match="not drained"):
                await den.link.ask("renew", journal=str(tmp_path / "second"))


async def test_an_answer_goes_to_the_visit_that_asked(tmp_path: Path) -> None:
    """Each host counts its questions from one: an answer for the one before would be taken for another one's."""
    with listening(tmp_path) as process:
        async with visit(tmp_path, process) as den:
            await den.setup()
            await den.sh("sleep 1000 & echo $! > pid")
            old = asyncio.create_task(den.link.ask("settle", limit_s=0.2))  # its third question
            await asyncio.sleep(0)
            await den.link.ask("ping")
        async with visit(tmp_path, process) as newer:
            await newer.link.ask("ping")
            await newer.link.ask("ping")
            third = asyncio.create_task(newer.link.ask("settle", limit_s=60))
            await asyncio.sleep(0.4)  # the old one's limit is over
            os.kill(int((tmp_path / "work" / "pid").read_text()), signal.SIGKILL)
            assert await third == {"empty": True}
        with pytest.raises(SandboxLost):
            await old
