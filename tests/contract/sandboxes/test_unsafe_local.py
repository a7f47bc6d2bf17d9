"""The driver that isolates nothing: what it starts is found and ended all the same, as far as can be."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from infra.sandboxes.link import Link
from infra.sandboxes.unsafe_local import ENFORCED, UnsafeLocalLauncher, UnsafeLocalSandbox
from schemas.sandbox import SandboxOrder
from tests.contract.sandboxes.supervised import Supervised
from tests.contract.sandboxes.test_supervisor_ending import alive, daemon, runner
from tiltyard.errors import SandboxLost
from tiltyard.testing.sandbox_bench import OWNER

ORDER = SandboxOrder(driver="unsafe-local", name="a", incarnation=1, owner=OWNER, episode_id="a")


@asynccontextmanager
async def launched(folder: Path) -> AsyncIterator[tuple[UnsafeLocalSandbox, Supervised]]:
    sandbox = await UnsafeLocalLauncher().launch(ORDER, folder)
    link = await Link.over(sandbox.control, lambda: SandboxLost("it is gone"))
    try:
        den = Supervised(link, sandbox.supervisor, folder)
        await den.setup(**sandbox.setup)
        yield sandbox, den
    finally:
        link.close()
        assert await asyncio.to_thread(sandbox.end)


async def test_an_offer_says_what_holds() -> None:
    offer = UnsafeLocalLauncher().offer()
    assert (offer.available, offer.enforced) == (True, ENFORCED)
    assert "files" not in ENFORCED
    assert "network" not in ENFORCED


async def test_commands_have_a_folder_and_a_python(tmp_path: Path) -> None:
    async with launched(tmp_path / "box") as (_, den):
        assert await den.out("pwd; echo $HOME") == f"{den.work}\n{den.work}\n"
        assert (await den.sh("python3 -c 'print(1)'")).exit_code == 0
    assert not den.work.exists()


async def test_its_supervisor_is_compiled_and_its_own(tmp_path: Path) -> None:
    launcher = UnsafeLocalLauncher()
    for folder in (tmp_path / "first", tmp_path / "second"):
        sandbox = await launcher.launch(ORDER, folder)
        try:
            assert str(folder / "supervisor.pyc") in psutil.Process(sandbox.supervisor.pid).cmdline()
        finally:
            sandbox.control.close()
            assert await asyncio.to_thread(sandbox.end)
    first, second = (tmp_path / name / "supervisor.pyc" for name in ("first", "second"))
    assert (first.read_bytes(), first.samefile(second)) == (second.read_bytes(), False)


async def test_what_lives_in_it_is_found_from_outside(tmp_path: Path) -> None:
    async with launched(tmp_path / "box") as (sandbox, den):
        assert sandbox.processes() == (den.process.pid,)
        await daemon(den, "deaf")
        assert len(sandbox.processes()) == 2
        for _ in range(2):
            assert await asyncio.to_thread(sandbox.end)
        assert sandbox.processes() == ()


async def test_what_outlives_a_killed_supervisor_is_found_and_ended(tmp_path: Path) -> None:
    """As a command may do to it: it runs as the same user."""
    async with launched(tmp_path / "box") as (sandbox, den):
        await daemon(den, "deaf")
        # Until it is itself: no program starts any more once nobody is there to see it.
        await den.sh("sleep 1000 & while ! grep -q sleep /proc/$!/cmdline; do sleep 0.01; done")
        asked = asyncio.create_task(den.sh("kill -9 $PPID; sleep 1000"))
        await asyncio.wait([asked])
        assert isinstance(asked.exception(), SandboxLost)
        assert len(sandbox.processes()) >= 2
        assert await asyncio.to_thread(sandbox.end)


async def test_what_forks_all_the_time_is_killed_from_outside(tmp_path: Path) -> None:
    async with launched(tmp_path / "box") as (sandbox, den):
        await runner(den)
        group = int((den.work / "on").read_text())
        assert await asyncio.to_thread(sandbox.end)
        assert [pid for pid in psutil.pids() if _group(pid) == group and alive(pid)] == []


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


async def test_a_folder_that_nobody_may_enter_is_removed(tmp_path: Path) -> None:
    async with launched(tmp_path / "box") as (_, den):
        await den.sh("mkdir -p a/b; echo x > a/b/c; ln -s / a/root; chmod 0 a/b a")
    assert not den.work.exists()
    assert Path("/").stat().st_mode & 0o555 == 0o555


async def test_a_sweep_ends_what_an_earlier_host_left(tmp_path: Path) -> None:
    """A host that was killed: its supervisor hangs up by itself, unless it is stopped."""
    host = f"""
import asyncio, json
from pathlib import Path
from tests.contract.sandboxes.test_unsafe_local import ORDER, daemon, launched
async def main():
    async with launched(Path({str(tmp_path / "box")!r})) as (sandbox, den):
        await daemon(den, "deaf")
        den.process.send_signal(19)
        print(json.dumps(sandbox.identity), flush=True)
        await asyncio.sleep(1000)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", host, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    identity = json.loads(await process.stdout.readline())
    process.kill()
    await process.wait()
    for known in ({"folder": identity["folder"]}, identity):
        assert UnsafeLocalLauncher().sweep(known)
    assert not alive(identity["supervisor"]["pid"])
    assert not (tmp_path / "box" / "work").exists()
