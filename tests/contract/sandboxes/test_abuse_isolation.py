"""Abuse of the way out: the machine, its network, its kernel, new rights, and the sandbox next door."""

import asyncio
import json
import os
import socket
from pathlib import Path

import pytest

from infra.sandboxes import stage
from tests.contract.sandboxes.abuse_yard import LIBC, Yard, printed, python, status_of

MARK = "5e7a-sentinel-of-the-host"


async def test_nothing_of_the_hosts_environment_is_in_there(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILTYARD_TEST_SENTINEL", MARK)
    async with yard.sandbox(environment={"ORDERED": "yes"}) as box:
        found = await box.out(
            "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\\\0' '\\n'; true"
        )
        assert "ORDERED=yes" in found
        assert MARK not in found
        assert "TILTYARD" not in found


async def test_no_way_to_other_daemons_and_to_the_kernels_settings(yard: Yard) -> None:
    async with yard.sandbox() as box:
        for path in (
            *yard.expected.absent,
            "/var/run/docker.sock",
            "/run/docker.sock",
            "/root/.ssh",
            str(stage.CODE),
        ):
            assert (await box.sh(f"test -e {path}")).exit_code == 1, path
        assert (await box.sh("find /run /boot /home /root /var/lib -not -type d -not -type l")).stdout.text == ""
        assert await box.out("find / -type s 2>/dev/null; true") == "", "no socket to a daemon"
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches"):
            assert (await box.sh(f"echo 1 > {path}")).exit_code != 0, path
        for device in ("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/kvm", "/dev/fuse"):
            assert (await box.sh(f"test -e {device}")).exit_code == 1, device


async def test_calls_of_the_list_are_refused(yard: Yard) -> None:
    """The ones that matter, made for real: whatever number the filter has for them, the kernel says no."""
    attempts = """
NEW = {"CLONE_NEWUSER": 0x10000000, "CLONE_NEWNS": 0x20000, "CLONE_NEWNET": 0x40000000, "CLONE_NEWPID": 0x20000000}
def refused(what, result, number=errno.EPERM):
    assert result == -1 and ctypes.get_errno() == number, (what, result, ctypes.get_errno())
for name, flag in NEW.items():
    refused(name, libc.unshare(flag))
refused("setns", libc.setns(os.open("/proc/self/ns/user", os.O_RDONLY), 0))
refused("mount", libc.mount(b"none", b"/work", b"tmpfs", 0, None))
refused("mount proc", libc.mount(b"proc", b"/work", b"proc", 0, None))
refused("umount", libc.umount2(b"/work", 2))
refused("chroot", libc.chroot(b"/work"))
refused("io_uring_setup", libc.syscall(425, 1, None))
refused("open_tree", libc.syscall(428, -100, b"/", 1))
refused("fsopen", libc.syscall(430, b"tmpfs", 0))
refused("clone3", libc.syscall(435, None, 0), errno.ENOSYS)
refused("shmget", libc.shmget(0, 4096, 0o1600), errno.ENOSYS)
refused("semget", libc.semget(0, 1, 0o1600), errno.ENOSYS)
refused("msgget", libc.msgget(0, 0o1600), errno.ENOSYS)
refused("sethostname", libc.sethostname(b"x", 1))
for family in range(46):
    if family not in (1, 2, 10, 16):
        refused(f"socket {family}", libc.socket(family, 1, 0), errno.EAFNOSUPPORT)
print("all refused")
"""
    async with yard.sandbox() as box:
        assert await printed(box, LIBC + attempts) == "all refused"
        # Threads and processes are made all the same.
        assert (
            await printed(box, "import threading as t; s = t.Thread(target=print, args=('ok',)); s.start()") == "ok"
        )


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="these calls are tried by their numbers on x86_64")
async def test_calls_without_a_name_in_libc_are_refused(yard: Yard) -> None:
    attempts = """
CALLS = {"bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "add_key": 248, "keyctl": 250, "kcmp": 312,
    "init_module": 175, "kexec_load": 246, "open_by_handle_at": 304, "name_to_handle_at": 303, "acct": 163,
    "swapon": 167, "reboot": 169, "quotactl": 179, "syslog": 103, "pidfd_getfd": 438}
for name, number in CALLS.items():
    assert libc.syscall(number, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM, name
"""
    async with yard.sandbox() as box:
        ended = await python(box, LIBC + attempts)
        assert ended.exit_code == 0, ended.stderr.text


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="these calls are tried by their numbers on x86_64")
async def test_the_half_of_an_argument_that_the_kernel_ignores_is_no_way_around_a_refusal(yard: Yard) -> None:
    """It looks at the low 32 bits of these: a rule that compares all 64 is gone around by any bit above them."""
    attempts = """
ABOVE = 1 << 32
for what, call, first, second, expected in (
    ("TIOCSTI", 16, 0, ABOVE | 0x5412, errno.EPERM),
    ("prlimit64 of the supervisor", 302, ABOVE | 1, 0, errno.EPERM),
    ("setpriority of a user", 141, ABOVE | 2, 0, errno.EPERM),
    ("setpriority of the supervisor", 141, 0, ABOVE | 1, errno.EPERM),
    ("ioprio_set of the supervisor", 251, 1, ABOVE | 1, errno.EPERM),
    ("clone into a user namespace", 56, ABOVE | 0x10000000 | 17, 0, errno.EPERM),
    ("vsock", 41, ABOVE | 40, 1, errno.EAFNOSUPPORT),
):
    result = libc.syscall(call, ctypes.c_ulong(first), ctypes.c_ulong(second), 0, 0, 0)
    assert result == -1 and ctypes.get_errno() == expected, (what, result, ctypes.get_errno())
"""
    async with yard.sandbox() as box:
        ended = await python(box, LIBC + attempts)
        assert ended.exit_code == 0, ended.stderr.text


async def test_it_is_in_namespaces_of_its_own(yard: Yard) -> None:
    async with yard.sandbox() as box:
        for name in yard.expected.namespaces:
            inside = (await box.out(f"readlink /proc/self/ns/{name}")).strip()
            assert inside != os.readlink(f"/proc/self/ns/{name}"), name


async def test_there_is_no_network(yard: Yard) -> None:
    yard.needs("network")
    host = {line.partition(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]}
    async with yard.sandbox() as box:
        inside = (await box.out("tail -n +3 /proc/net/dev | cut -d: -f1")).split()
        assert set(inside) <= {"lo"}, f"of the host's {host}"
        assert await box.out("tail -n +2 /proc/net/route") == ""
        # An address of every interface is in this table; of version 6 there is at most the one of lo.
        assert {line.split()[-1] for line in (await box.sh("cat /proc/net/if_inet6")).stdout.text.splitlines()} <= {
            "lo"
        }
        assert await box.out("cat /etc/resolv.conf") == ""


async def test_the_hosts_sockets_are_not_in_its_network(yard: Yard) -> None:
    """A socket with an abstract name is in no file system, and belongs to a network: to the host's, not to this."""
    name = f"\0{MARK}-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        connect = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
        async with yard.sandbox() as box:
            ended = await python(box, connect)
            assert "ConnectionRefusedError" in ended.stderr.text


async def test_nobody_becomes_anybody_else(yard: Yard) -> None:
    async with yard.sandbox() as box:
        # A program that is root's and set-uid on the host, and one of its own.
        tried = await box.sh("cp /usr/bin/id own && chmod 4755 own && ./own -u; ls -ln /usr/bin/su /usr/bin/passwd")
        assert tried.stdout.text.splitlines()[0] == str(yard.agent_of(box))
        assert (await box.sh("su -c id", stdin=b"\n")).exit_code != 0
        status = await box.out("grep -E 'NoNewPrivs|Seccomp:|Cap(Eff|Prm|Bnd|Amb)' /proc/self/status")
        fields = dict(line.split(":\t") for line in status.splitlines())
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
        assert {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapAmb")} == {0}
        assert int(fields["CapBnd"], 16) == yard.expected.bounding
        options = [line.split()[5].split(",") for line in (await box.out("cat /proc/self/mountinfo")).splitlines()]
        if yard.expected.all_mounts_without_set_uid:
            assert all("nosuid" in mounted for mounted in options)
        else:
            assert await box.out("find / -perm /6000 -not -user agent 2>/dev/null; true") == ""
        for attempt in ("os.setuid(0)", "os.setgid(0)", "os.setgroups([0])"):
            assert (await python(box, LIBC + attempt)).exit_code == 1, attempt


async def test_on_the_host_it_is_a_user_without_rights(yard: Yard) -> None:
    """Commands are, and so is their supervisor; in a container it is root with three rights of a container's."""
    async with yard.sandbox() as box:
        asked = asyncio.create_task(box.sh("touch running; exec sleep 1000", timeout_s=1000, op_id="long"))
        await box.appears("running")
        supervisor, command = sorted(yard.watched.launched[box.order.name].processes())
        agent = {str(yard.user_of(box))}
        assert users_of(command) == agent
        if yard.expected.root_supervises:
            assert int(status_of(supervisor, "CapPrm")[0], 16) == yard.expected.bounding
        else:
            assert users_of(supervisor) == agent
        if os.geteuid() == 0:
            assert status_of(command, "Groups") == []
        await box.sh("pkill sleep")
        await asked


def users_of(pid: int) -> set[str]:
    return {*status_of(pid, "Uid"), *status_of(pid, "Gid")}


async def test_only_its_own_folders_can_be_written(yard: Yard) -> None:
    look = """
import json, os
found = []
for top, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(top, name) not in ("/proc", "/work", "/tmp", "/dev/shm")]
    found += [top] if os.access(top, os.W_OK) else []
    paths = [os.path.join(top, name) for name in files]
    found += [path for path in paths if not os.path.islink(path) and os.access(path, os.W_OK)]
print(json.dumps(found))
"""
    async with yard.sandbox() as box:
        devices = {f"/dev/{name}" for name in ("full", "null", "random", "tty", "urandom", "zero")}
        # What lies in /dev/pts are terminals, and no files can be made there.
        assert set(json.loads(await printed(box, look))) <= {*devices, "/dev/pts", "/dev/pts/ptmx"}
        assert (await box.sh("touch /dev/pts/file")).exit_code == 1


async def test_the_code_and_the_packages_beside_it_are_not_seen(yard: Yard) -> None:
    """A task's hidden tests and solutions ship with Tiltyard."""
    async with yard.sandbox() as box:
        seen = await printed(
            box, "import sys, os; print([os.listdir(p) for p in sys.path if p.endswith('-packages')])"
        )
        assert set(seen) <= set("[], "), seen
        for module in ("tiltyard", "schemas", "pydantic", "tasks"):
            assert (await python(box, f"import {module}")).exit_code == 1, module
        assert await box.out("find / -name 'tiltyard*' -not -path '/proc/*' 2>/dev/null; true") == ""


async def test_one_sandbox_sees_nothing_of_another(yard: Yard) -> None:
    look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls /work /tmp /dev/shm; cat /work/* /tmp/* /dev/shm/*"
    async with yard.sandbox() as mine, yard.sandbox() as other:
        await mine.sh("for d in /work /tmp /dev/shm; do echo in-a-file > $d/canary; done; sleep 987654 &")
        seen = (await mine.sh(look)).stdout.text
        assert all(trace in seen for trace in ("in-a-file", "canary", "987654"))
        seen = (await other.sh(look)).stdout.text
        assert not any(trace in seen for trace in ("in-a-file", "canary", "987654"))
