"""A container is used again only when nothing of the sandbox before is left. That is looked at, never assumed."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from infra.sandboxes.docker import member as members
from infra.sandboxes.docker.area import PLACES
from schemas.sandbox import SandboxLimits
from tests.contract.sandboxes.left_behind import PLANTS, Plant, pid_of, root_of
from tests.contract.sandboxes.reset_yard import ResetYard, changed_supervisor, reset_yard
from tiltyard.errors import EnvironmentFailed

CANARY = "canary-7f3a"

LEAVES_MUCH = f"""
import ctypes, os, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
for folder in ("/work", "/tmp", "/dev/shm"):
    os.makedirs(f"{{folder}}/.{CANARY}/deep")
    for name in (f"{CANARY}", f".{CANARY}/deep/file"):
        with open(f"{{folder}}/{{name}}", "w") as file:
            file.write("{CANARY}")
kept = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX), socket.socket()]
kept[0].bind("\\0{CANARY}")
kept[1].bind("/tmp/{CANARY}.socket")
kept[2].bind(("127.0.0.1", 8000))
kept[2].listen()
came = socket.create_connection(("127.0.0.1", 8000))
kept[2].accept()[0].close()  # who closes first keeps the port for a while
came.close()
print(libc.mq_open(b"/{CANARY}", os.O_CREAT | os.O_RDWR, 0o600, None))
print(libc.shmget(7, 4096, 0o1600), libc.semget(7, 1, 0o1600), libc.msgget(7, 0o1600))
subprocess.Popen(["sh", "-c", "exec 3<>/dev/shm/{CANARY}; (sleep 1000 &); sleep 1000"], start_new_session=True)
os.fork() or os._exit(0)  # a zombie, until somebody looks
"""

LOOKS_AROUND = f"""
import os, socket
found = [os.path.join(at, name) for top in ("/work", "/tmp", "/dev/shm", "/ctl", "/run", "/var")
         for at, folders, files in os.walk(top) for name in folders + files if "{CANARY}" in name]
nets = [*open("/proc/net/unix"), *open("/proc/net/tcp")]
found += [line for line in nets if "{CANARY}" in line or "1F40" in line]
found += [line for name in ("shm", "sem", "msg") for line in list(open(f"/proc/sysvipc/{{name}}"))[1:]]
found += [f"{{name}}={{value}}" for name, value in os.environ.items() if "{CANARY}" in value]
again = socket.socket()
again.bind(("127.0.0.1", 8000))
print(found)
"""


@pytest.fixture(scope="module")
async def yard(docker_images: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ResetYard]:
    async with reset_yard(tmp_path_factory.mktemp("reset"), docker_images) as yard:
        yield yard


async def test_nothing_of_one_sandbox_is_in_the_next_one_of_its_container(yard: ResetYard) -> None:
    """A file of another day was taken for the output of this trial (video-search 911)."""
    limits = SandboxLimits(cpu_s=7, output_bytes=1024, command_s=5)
    first = await yard.made(environment={"CANARY": CANARY}, limits=limits)
    told = await first.sh("python3 -", stdin=LEAVES_MUCH.encode())
    assert told.stdout.text == "-1\n-1 -1 -1\n", "queues and shared memory that outlive their makers cannot be made"
    await first.sh("echo first", op_id="same")
    member = yard.member_of(first)
    facts = await yard.over(first)
    assert (facts.isolation, facts.drain.empty) == ("reset", True)
    assert facts.drain.found >= 3

    second = await yard.made()
    assert yard.member_of(second).folder == member.folder
    assert (await second.sh("echo second", op_id="same")).stdout.text == "second\n"
    assert (await second.sh("python3 -", stdin=LOOKS_AROUND.encode())).stdout.text == "[]\n"
    assert await second.out("ulimit -t") == f"{SandboxLimits().cpu_s}\n"
    assert await second.out("ls -A /work /tmp /dev/shm") == "/dev/shm:\n\n/tmp:\n\n/work:\n"
    assert await second.out("stat -c '%a %U' /work /tmp /dev/shm") == "755 agent\n1777 agent\n1777 agent\n"
    assert len((await second.sh("head -c 9999 /dev/zero | tr '\\0' x")).stdout.text) == 9999
    after = await yard.over(second)
    assert after.served_before == facts.served_before + 1
    assert {one.op_id for one in after.commands} >= {"same"}
    assert CANARY not in after.model_dump_json()


async def test_what_lies_outside_of_its_places_cannot_be_touched(yard: ResetYard) -> None:
    """Times of a device were a message to the next sandbox, and so were the addresses that the kernel remembers."""
    box = await yard.made()
    told = await box.out("touch /dev/full /dev/pts/ptmx /sys/fs/cgroup 2>&1; true")
    assert [line.rpartition(": ")[2] for line in told.splitlines()] == ["Read-only file system"] * 3, told
    assert (await box.sh("touch /etc/hosts")).exit_code == 1
    assert await box.out("cat /proc/sys/net/ipv4/tcp_no_metrics_save /proc/sys/net/ipv4/tcp_fastopen") == "1\n0\n"
    assert await box.out("echo > /dev/null && head -c 2 /dev/zero | wc -c; ls /sys/fs/cgroup") == "2\n"
    member = yard.member_of(box)
    await yard.over(box)
    assert yard.is_there(member)


async def test_a_terminal_can_be_opened_and_written_to(yard: ResetYard) -> None:
    """The kernel notes when that was, wherever it is: its container is not used again."""
    box = await yard.made()
    talk = "import os, pty; pty.spawn(['sh', '-c', 'tty; echo said > /dev/tty; : > /dev/shm/mine'])"
    assert (await box.out(f'python3 -c "{talk}"')).split() == ["/dev/pts/0", "said"]
    await yard.over(box)


async def test_a_disk_that_was_full_is_empty_and_of_its_own_size(yard: ResetYard) -> None:
    """The memory of files counts for the container, so it has the size that goes with its limits."""
    for _ in range(2):
        box = await yard.made(limits=SandboxLimits(disk_bytes=2**20))
        told = await box.sh(
            "head -c 2M /dev/zero > /work/much; ls -l /work | cut -d' ' -f5; df -k --output=size /work"
        )
        assert [line.strip() for line in told.stdout.text.split("\n")][2:4] == ["1K-blocks", "1024"]
        facts = await yard.over(box)
    assert facts.served_before == 1


async def test_a_world_that_was_exposed_is_so_no_more(yard: ResetYard) -> None:
    visit = 'import socket; s = socket.create_connection(("desk.world", 80)); s.send(b"GET /"); print(1)'
    first = await yard.made(exposes={"desk": ("read",)})
    member = yard.member_of(first)
    assert await first.out(f"python3 -c '{visit}'") == "1\n"
    await yard.over(first)
    second = await yard.made()
    assert yard.member_of(second).folder == member.folder
    assert (await second.sh(f"python3 -c '{visit}'")).exit_code != 0
    assert await second.out("grep -c desk /etc/hosts || true") == "0\n"
    near = 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 80)); print(1)'
    assert await second.out(f"python3 -c '{near}'") == "1\n", "the port is free"
    await yard.over(second)


async def test_what_is_to_be_fresh_was_no_sandbox_before(yard: ResetYard) -> None:
    used = await yard.made()
    await yard.over(used)
    for _ in range(3):
        box = await yard.made(isolation="fresh")
        member = yard.member_of(box)
        facts = await yard.over(box)
        assert (facts.isolation, facts.served_before) == ("fresh", 0)
        assert not yard.is_there(member), "and it is none afterwards"


async def test_one_that_waited_is_taken(docker_images: Path, tmp_path: Path) -> None:
    async with reset_yard(tmp_path, docker_images, warm=1) as yard:
        await yard.over(await yard.made(isolation="fresh"))
        while not len(yard.launcher.pool):
            await asyncio.sleep(0.01)
        asked = time.time()
        box = await yard.made(isolation="fresh")
        assert yard.member_of(box).born < asked


async def test_those_that_are_there_at_once_share_nothing(yard: ResetYard) -> None:
    async def episode(number: int) -> Path:
        box = await yard.made()
        assert await box.out("cat /work/* /tmp/* /dev/shm/* 2>/dev/null; true") == ""
        await box.out(f"for place in /work /tmp /dev/shm; do echo {number} > $place/mine; done; sleep 0.05")
        assert await box.out("cat /work/* /tmp/* /dev/shm/*") == f"{number}\n" * 3
        folder = yard.member_of(box).folder
        await yard.over(box)
        return folder

    used = await asyncio.gather(*map(episode, range(24)))
    assert len(set(used)) < len(used), "none was used again"


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
async def test_a_container_with_something_left_is_not_used_again(plant: Plant, yard: ResetYard) -> None:
    box = await yard.made()
    member = yard.member_of(box)
    await yard.closed(box)
    with ExitStack() as until:
        plant(yard, member, until)
        await yard.host.release(box.ref)
        assert box.ref not in [one.ref for one in await yard.host.sandboxes()]
        assert not yard.is_there(member)


LIES = {
    "it renews nothing": ('self.sandbox.renew(os.open(request["journal"], JOURNAL))\n        self.begin()', "pass"),
    "it knows the operations": ("JOURNAL))\n        self.begin()", "JOURNAL))"),
    "it keeps the folder": ("os.close(self.work)\n        os.close(self.journal.fd)", "os.close(self.journal.fd)"),
    "it keeps the journal": ("os.close(self.work)\n        os.close(self.journal.fd)", "os.close(self.work)"),
    "it has another journal": ('os.open(request["journal"], JOURNAL)', "os.open('/ctl/mine', JOURNAL)"),
    "it knows the programs": ("self.programs.renew()\n        self.children", "self.children"),
    "it has a child": (
        "self.sandbox.renew(os.open",
        "os.fork() or time.sleep(99)\n        self.sandbox.renew(os.open",
    ),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_supervisor_that_does_not_renew_is_not_asked_again(
    lie: str, docker_images: Path, tmp_path: Path
) -> None:
    async with reset_yard(tmp_path, docker_images, changed_supervisor(LIES[lie]), warm=1) as yard:
        box = await yard.made()
        await box.sh("echo first", op_id="same")
        member = yard.member_of(box)
        await yard.over(box)
        assert box.ref not in [one.ref for one in await yard.host.sandboxes()]
        assert not yard.is_there(member)


async def test_a_supervisor_that_is_somebodys_at_its_start_is_nobodys(docker_images: Path, tmp_path: Path) -> None:
    lie = changed_supervisor(('"sealed": self.operations.sealed,', '"sealed": True,'))
    async with reset_yard(tmp_path, docker_images, lie) as yard:
        with pytest.raises(EnvironmentFailed, match="remembers a sandbox"):
            await yard.made()


async def test_one_that_dies_while_it_waits_is_not_given_out(yard: ResetYard) -> None:
    box = await yard.made()
    member = yard.member_of(box)
    await yard.over(box)
    os.kill(pid_of(member), 9)
    again = await yard.made()
    assert yard.member_of(again).folder != member.folder
    assert not yard.is_there(member)
    await yard.over(again)


async def test_one_that_was_not_drained_is_not_used_again(yard: ResetYard) -> None:
    box = await yard.made()
    member = yard.member_of(box)
    await box.sh("sleep 1000 & echo $!")
    await yard.host.release(box.ref)
    assert not yard.is_there(member)


async def test_two_releases_at_once_reset_it_once(yard: ResetYard) -> None:
    box = await yard.made()
    member = yard.member_of(box)
    await yard.closed(box)
    await asyncio.gather(yard.host.release(box.ref), yard.host.release(box.ref))
    assert yard.is_there(member)
    assert [one.state for one in [members.read(member.folder)] if one] == ["idle"]
    again = await yard.made()
    assert await again.out("echo there") == "there\n"
    await yard.over(again)


async def test_a_place_that_is_not_fresh_is_told_from_one_that_is(yard: ResetYard) -> None:
    box = await yard.made()
    member, limits = yard.member_of(box), SandboxLimits()
    assert member.area.unlike(root_of(member), limits) == []
    assert member.area.unlike(root_of(member), limits.model_copy(update={"disk_bytes": 2**20})) == [*PLACES]
    await box.sh("touch /work/file; ln -s / /tmp/link; mkfifo /dev/shm/pipe")
    assert member.area.unlike(root_of(member), limits) == [*PLACES]
    await box.sh("rm /work/file /tmp/link /dev/shm/pipe; chmod 700 /tmp")
    assert member.area.unlike(root_of(member), limits) == ["/tmp"]
    await yard.over(box)
