"""Ways to leave something in a container, or of it, after its sandbox was drained: as the host's root can."""

import ctypes
import mmap
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from infra.sandboxes.docker.member import Member
from infra.sandboxes.mounts import as_seen_by, mount_memory
from tests.contract.sandboxes.reset_yard import ResetYard, inside

MS_RDONLY, MS_NOSUID, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 8, 32, 4096

Plant = Callable[[ResetYard, Member, ExitStack], object]


def a_process(yard: ResetYard, member: Member, until: ExitStack) -> None:
    """One that the supervisor did not start, and that stands in the place."""
    made = yard.engine.api.exec_create(member.name, ["sleep", "1000"], workdir="/work")
    yard.engine.api.exec_start(made["Id"], detach=True)


def an_open_file(yard: ResetYard, member: Member, until: ExitStack) -> None:
    until.enter_context((root_of(member) / "work" / "held").open("w"))


def an_open_folder(yard: ResetYard, member: Member, until: ExitStack) -> None:
    until.callback(os.close, os.open(root_of(member) / "dev" / "shm", os.O_RDONLY))


def a_mapped_file(yard: ResetYard, member: Member, until: ExitStack) -> None:
    with (root_of(member) / "tmp" / "held").open("w+b") as file:
        file.truncate(4096)
        until.enter_context(mmap.mmap(file.fileno(), 4096))


def a_bound_socket(yard: ResetYard, member: Member, until: ExitStack) -> None:
    bound = until.enter_context(socket.socket(socket.AF_UNIX))
    bound.bind(str(root_of(member) / "tmp" / "s"))


def an_abstract_socket(yard: ResetYard, member: Member, until: ExitStack) -> None:
    held_in_net(member, until, "socket.socket(socket.AF_UNIX)", "'\\0x'")


def a_port(yard: ResetYard, member: Member, until: ExitStack) -> None:
    held_in_net(member, until, "socket.socket()", "('', 80)")


def shared_memory(yard: ResetYard, member: Member, until: ExitStack) -> None:
    ended(until, inside(pid_of(member), "ipc", "ipcmk", "--shmem", "4096"))


def a_message_queue(yard: ResetYard, member: Member, until: ExitStack) -> None:
    script = "import ctypes; print(ctypes.CDLL(None).mq_open(b'/x', 0o102, 0o600, None), flush=True)"
    ended(until, inside(pid_of(member), "ipc", sys.executable, "-c", script))


def a_mount(yard: ResetYard, member: Member, until: ExitStack) -> None:
    as_seen_by(pid_of(member), lambda: mount_memory(Path("/usr/share"), 4096, 8, "755", 0))


def a_file_below_a_place(yard: ResetYard, member: Member, until: ExitStack) -> None:
    with below_its_places(member, yard.folder / "seen") as seen:
        (seen / "work" / "left").touch()


def a_mode_below_a_place(yard: ResetYard, member: Member, until: ExitStack) -> None:
    with below_its_places(member, yard.folder / "seen") as seen:
        (seen / "tmp").chmod(0o700)


def a_file_beside_the_door(yard: ResetYard, member: Member, until: ExitStack) -> None:
    (member.control / "left").touch()


def an_order_of_killing(yard: ResetYard, member: Member, until: ExitStack) -> None:
    Path(f"/proc/{pid_of(member)}/oom_score_adj").write_text("17")


def a_limit(yard: ResetYard, member: Member, until: ExitStack) -> None:
    resource.prlimit(pid_of(member), resource.RLIMIT_NPROC, (99, 99))


def a_share_of_the_processor(yard: ResetYard, member: Member, until: ExitStack) -> None:
    os.setpriority(os.PRIO_PROCESS, pid_of(member), 7)


def measures_of_connections(yard: ResetYard, member: Member, until: ExitStack) -> None:
    """As the kernel keeps them where it is let: by address, which is as good as a text."""
    script = """
import socket
kept = open("/proc/sys/net/ipv4/tcp_no_metrics_save", "w")
print(0, file=kept, flush=True)
with socket.create_server(("127.77.3.65", 0)) as near:
    for _ in range(3):
        came = socket.create_connection(near.getsockname())
        there, _ = near.accept()
        for _ in range(20):
            came.sendall(b"x" * 2000), there.recv(2000), there.sendall(b"y"), came.recv(1)
        came.close(), there.recv(1), there.close()
print(1, file=kept, flush=True)
print(1, flush=True)
"""
    ended(until, inside(pid_of(member), "net", sys.executable, "-c", script))


def a_label_of_a_flow(yard: ResetYard, member: Member, until: ExitStack) -> None:
    """Anybody may have one, and it stays for a while after its socket."""
    script = """
import socket, struct
asked = socket.inet_pton(socket.AF_INET6, "::1") + struct.pack("!I", 77) + struct.pack("=BBHHHI", 0, 1, 1, 6, 60, 0)
socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).setsockopt(socket.IPPROTO_IPV6, 32, asked)
print(1, flush=True)
"""
    ended(until, inside(pid_of(member), "net", sys.executable, "-c", script))


def a_time_of_a_device(yard: ResetYard, member: Member, until: ExitStack) -> None:
    as_seen_by(pid_of(member), lambda: written_to("/dev", lambda: os.utime("/dev/full", (77, 77))))


def a_time_of_the_terminals(yard: ResetYard, member: Member, until: ExitStack) -> None:
    as_seen_by(pid_of(member), lambda: written_to("/dev/pts", lambda: os.utime("/dev/pts/ptmx", (77, 77))))


def a_control_group(yard: ResetYard, member: Member, until: ExitStack) -> None:
    below = member.groups[0] / "left"
    below.mkdir()
    until.callback(shutil.rmtree, below, ignore_errors=True)


PLANTS: tuple[Plant, ...] = (
    *(a_process, an_open_file, an_open_folder, a_mapped_file, a_bound_socket, an_abstract_socket, a_port),
    *(shared_memory, a_message_queue, a_mount, a_file_below_a_place, a_mode_below_a_place, a_file_beside_the_door),
    *(an_order_of_killing, a_limit, a_share_of_the_processor, a_control_group),
    *(measures_of_connections, a_label_of_a_flow, a_time_of_a_device, a_time_of_the_terminals),
)


def written_to(folder: str, change: Callable[[], None]) -> None:
    """Change something where a container is for reading only, as it is again afterwards."""
    libc = ctypes.CDLL(None, use_errno=True)
    for read_only, then in ((0, change), (MS_RDONLY, lambda: None)):
        plain = MS_NOSUID | (MS_NOEXEC if folder == "/dev/pts" else 0)
        flags = ctypes.c_ulong(MS_REMOUNT | MS_BIND | plain | read_only)
        assert libc.mount(b"none", folder.encode(), None, flags, None) == 0, os.strerror(ctypes.get_errno())
        then()


def pid_of(member: Member) -> int:
    assert member.first is not None
    return member.first.pid


def root_of(member: Member) -> Path:
    return Path(f"/proc/{pid_of(member)}/root")


@contextmanager
def below_its_places(member: Member, seen: Path) -> Iterator[Path]:
    """The folders that its places are mounted on, without what is mounted on them."""
    seen.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", member.folder / "places", seen], check=True)
    try:
        yield seen
    finally:
        subprocess.run(["umount", seen], check=True)


def held_in_net(member: Member, until: ExitStack, made: str, bound: str) -> None:
    script = f"import socket, time; s = {made}; s.bind({bound}); s.listen(); print(1, flush=True); time.sleep(1000)"
    ended(until, inside(pid_of(member), "net", sys.executable, "-c", script))


def ended(until: ExitStack, process: "subprocess.Popen[str]") -> None:
    until.enter_context(process)
    until.callback(process.kill)
