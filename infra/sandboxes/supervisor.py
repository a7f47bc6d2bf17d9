"""The supervisor: the one process of ours in a sandbox. It runs commands and moves files, each once, and ends them.

    python3 -I -S supervisor.py CONTROL_FD JOURNAL_FD [PROC_FD]

``CONTROL_FD`` is a connected stream socket. A frame on it is two lengths of four bytes, big-endian, and that many
bytes of JSON and of a tail: a request ``{"id": N, "do": NAME, ...}`` or its reply, ``{"id": N, "ok": {...}}`` or
``{"id": N, "error": {"kind", "message"}}``. The tail has the contents of files, one after the other; in the JSON
each is ``{"bytes": COUNT}``. When the other side hangs up, everything here is killed. ``JOURNAL_FD`` is a file
opened for reading and appending that nothing in the sandbox can reach. ``PROC_FD`` is a ``/proc`` that may be
written to, where the sandbox's own may not.

Processes in the sandbox may have the same user as the supervisor and wish it ill. So it is not dumpable, which
closes ``/proc/PID`` and ptrace to them, and hands no descriptor on. As PID 1 no signal of theirs reaches it.

One file of the standard library's, for Python 3.9 and later, since this is all that is put into a sandbox. One is
started for every episode, so it imports C modules only, a few of them private: json, hashlib, signal and ctypes
would take longer to load than everything else of the start together.
"""

# ruff: noqa: SIM105 - contextlib would have to be loaded
from __future__ import annotations

import _ctypes
import _signal  # type: ignore[import-not-found]  # typeshed knows it as signal, which loads enum
import binascii
import errno
import fcntl
import gc
import os
import resource
import select
import stat
import sys
import time

try:
    from _sha256 import sha256  # type: ignore[import-not-found]
except ImportError:  # Python 3.12 and later have it elsewhere; some builds have OpenSSL's only
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

MAX_JSON_BYTES, MAX_TAIL_BYTES = 64 * 2**20, 192 * 2**20  # of a frame
MAX_PATH_BYTES, MAX_ENTRIES, MAX_SKIPPED = 1024, 100_000, 1000
MAX_COPIED_BYTES, MAX_COPIED_JSON_BYTES = 180 * 2**20, 48 * 2**20  # of contents, and of what is said of them
MAX_PROGRAMS, MAX_PROGRAM_BYTES, MAX_ARGUMENTS, MAX_ARGUMENT_BYTES = 10_000, 8 * 2**20, 64, 4096
MAX_OPEN_FILES = 1024
PIPE_BYTES, MAX_READ_BYTES = 2**16, 2**22
BLOCK_BYTES = 2**20  # of a file

TERM_S = 5.0  # from TERM to KILL
KILL_S = 10.0  # from KILL to giving up: only a process that hangs in the kernel lives that long
FREEZE_LOOKS, PATIENT_LOOKS, FREEZE_PAUSE_S = 200, 20, 0.001
SESSION_LOOKS = 100
REAPED_AT_ONCE, SEEN_AT_ONCE = 256, 1024  # then others have their turn

SIGNALS = {getattr(_signal, name): name for name in reversed(dir(_signal)) if name[:3] == "SIG" and name[3] != "_"}


# --- JSON and errors --------------------------------------------------------------------------------------------


class Failure(Exception):
    """An error reply. ``kind`` names a class of the host's errors."""

    def __init__(self, kind: str, message: str, **more: str) -> None:
        super().__init__(message)
        self.said = {"kind": kind, "message": message, **more}


class Refused(Exception):
    """An operation that cannot be: its recorded outcome. ``code`` is one of those of ``SandboxReply``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def bad(message: str, field: str = "", fix: str = "") -> Failure:
    return Failure("BadInput", message, field=field, fix=fix)


class _Scanning:
    """What the C scanner of ``json`` asks its decoder."""

    strict, object_hook, object_pairs_hook, array_hook = True, None, None, None
    parse_float, parse_int = float, int

    @staticmethod
    def parse_constant(name: str) -> None:
        raise ValueError(f"{name} is no JSON")


def _json() -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    """(dumps, loads) of the C parts that ``json`` is made of, or of ``json`` where those are others."""
    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner

        scan = make_scanner(_Scanning())  # type: ignore[arg-type]
        encode = make_encoder(None, _no_json, encode_basestring_ascii, None, ":", ",", False, False, False)

        def loads(text: str) -> Any:
            try:
                value, end = scan(text, 0)
            except (StopIteration, SystemError):  # SystemError: its own error would be in the module json
                raise ValueError("no JSON") from None
            if text[end : end + 1]:
                raise ValueError("more than one JSON value")
            return value

        def dumps(value: Any) -> str:
            return "".join(encode(value, 0))

        if loads(dumps({"a": [1, "b"]})) != {"a": [1, "b"]}:
            raise ImportError
    except (ImportError, AttributeError, TypeError):
        import json

        return json.dumps, json.loads
    return dumps, loads


def _no_json(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is no JSON")


dumps, loads = _json()


def as_text(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


# --- The kernel -------------------------------------------------------------------------------------------------


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "l"


class _Pointer(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "z"


class _Call(_ctypes.CFuncPtr):
    _flags_ = 1 | 8  # the C calling convention; errno is kept
    _restype_ = _Long


class Kernel:
    """The two functions of libc that Python has no name for."""

    def __init__(self) -> None:
        library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # the program itself, and libc with it
        self._syscall, self._prctl = (_Call(_ctypes.dlsym(library, name)) for name in ("syscall", "prctl"))

    def prctl(self, option: int, value: int) -> bool:
        return bool(self._prctl(_Long(option), _Long(value), _Long(0), _Long(0), _Long(0)) == 0)

    def listener(self, call: int, flags: int, program: bytes) -> int:
        """seccomp(2): the descriptor of a new listener, or -1. ``program`` are instructions of eight bytes."""
        pointer = bytes(memoryview(_Pointer(program)))
        filter_of = (len(program) // 8).to_bytes(8, "little") + pointer
        set_mode_filter = 1
        return int(self._syscall(_Long(call), _Long(set_mode_filter), _Long(flags), filter_of))

    def stop_ignoring_its_own(self) -> None:
        """The C library keeps two signals for itself and lets nobody set them. Whoever started us may have had them
        ignored, and every command would inherit that."""
        number = SIGACTION_CALL.get(os.uname().machine)
        for own in (32, 33) if number is not None else ():
            self._syscall(_Long(number), _Long(own), bytes(32), None, _Long(8))


SIGACTION_CALL = {"x86_64": 13, "aarch64": 134}
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 36, 38


# --- Processes --------------------------------------------------------------------------------------------------


class Process:
    """One look at a process. ``start`` in ticks of the boot tells it from another one with its number."""

    __slots__ = ("is_thread", "parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid, self.state = pid, fields[0].decode()
        self.parent, self.session, self.start = int(fields[1]), int(fields[3]), int(fields[19])
        self.is_thread = fields[35] == b"-1"  # its exit signal: none but a leader of threads has one

    @property
    def ended(self) -> bool:
        return self.state in "ZXx"


def read_file(path: str, limit: int = 65_536) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, limit)
    finally:
        os.close(fd)


def look(pid: int) -> Process | None:
    """The process as it is now; ``None`` when there is none."""
    try:
        data = read_file(f"/proc/{pid}/stat")
        return Process(pid, data[data.rindex(b")") + 2 :].split())
    except (OSError, ValueError, IndexError):
        return None


def look_at_all() -> list[Process]:
    """Every living process that ``/proc`` shows, but for this one."""
    me = os.getpid()
    found = (look(int(name)) for name in os.listdir("/proc") if name.isdigit() and int(name) != me)
    return [process for process in found if process is not None and not process.ended]


def descendants(everyone: list[Process]) -> list[Process]:
    """Those that descend from this process, which their orphans come to."""
    children: dict[int, list[Process]] = {}
    for process in everyone:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    todo = [os.getpid()]
    while todo:
        below = children.pop(todo.pop(), [])
        found += below
        todo += [process.pid for process in below]
    return found


def kill_group_of(ended: int) -> None:
    """Kill the group of a child that has ended and has not been waited for: that keeps its number its own."""
    try:
        group = os.getpgid(ended)
        if group != os.getpgrp():
            os.killpg(group, _signal.SIGKILL)
    except OSError:
        pass


def strike(process: Process, number: int) -> None:
    """Signal exactly this process. One that is gone meanwhile, or not ours to signal, is let be."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            os.kill(process.pid, number)
        return
    try:
        now = look(process.pid)
        if now is not None and now.start == process.start:
            _signal.pidfd_send_signal(fd, number)
    except OSError:
        pass
    finally:
        os.close(fd)


class Reach:
    """All others that the supervisor answers for. As PID 1 that is everybody, else its descendants."""

    def __init__(self, pid_one: bool) -> None:
        self.pid_one = pid_one

    def others(self) -> list[Process]:
        everyone = look_at_all()
        return everyone if self.pid_one else descendants(everyone)

    def nobody(self) -> bool:
        """Whether nobody is left, as the kernel has it.

        That a look finds nobody does not say so: one may fork and end faster than it is looked for. But whoever is
        left descends from a child of ours, or has come from outside, which only a look finds.
        """
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return not self.pid_one or not look_at_all()
        return False

    def signal(self, number: int) -> None:
        """Signal all of them. As PID 1 that is one step, which no fork escapes."""
        if not self.pid_one:
            for process in self.others():
                strike(process, number)
            return
        try:
            os.kill(-1, number)
        except OSError:
            pass  # there is nobody

    def freeze(self, meanwhile: Callable[[], None]) -> set[int]:
        """Stop all, and wait until they have stopped. Returns those that had been stopped already."""
        if self.nobody():
            return set()
        before = {process.pid for process in self.others() if process.state in "Tt"}
        for looks in range(FREEZE_LOOKS):
            still = "Tt" if looks < PATIENT_LOOKS else "TtD"  # it waits for one that we have stopped: vfork
            if looks and all(process.state in still for process in self.others()):
                break
            self.signal(_signal.SIGSTOP)
            meanwhile()
            time.sleep(FREEZE_PAUSE_S)
        return before

    def thaw(self, but: set[int]) -> None:
        for process in self.others():
            if process.pid not in but:
                strike(process, _signal.SIGCONT)

    def kill(self) -> None:
        if not self.pid_one:
            self.freeze(lambda: None)  # or one forks while the next is killed
        self.signal(_signal.SIGKILL)


def kill_session(leader: int) -> None:
    """Kill a session. Its number is its own for as long as its leader has not been waited for.

    One that was stopped before it made its session is in ours still: so it is killed by itself too.
    """
    for kill in (os.killpg, os.kill):
        try:
            kill(leader, _signal.SIGKILL)
        except OSError:
            pass
    for _ in range(SESSION_LOOKS):
        found = [process for process in look_at_all() if process.session == leader]
        if not found:
            return
        for process in found:
            strike(process, _signal.SIGKILL)
        time.sleep(FREEZE_PAUSE_S)


# --- Files ------------------------------------------------------------------------------------------------------

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

CODES = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_a_file",
    errno.EISDIR: "not_a_file",
    errno.ENXIO: "not_a_file",
    errno.ELOOP: "bad_path",
    errno.ENAMETOOLONG: "bad_path",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EFBIG: "no_space",
}  # anything else is "denied", with the system's own words


def parts_of(path: str) -> list[str]:
    """The parts of a path below the work folder. Names are data: none leads out of it."""
    parts = path.split("/")
    try:
        length = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        raise Refused("bad_path", "the path is no UTF-8") from None
    if not 1 <= length <= MAX_PATH_BYTES or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise Refused("bad_path", f"{path[:100]!r} is no path below the work folder")
    return parts


def is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def step(folder: int, name: str, make: bool) -> int:
    """Open the folder ``name`` in ``folder``, made if need be and asked for. A link is refused."""
    if make:
        try:
            os.mkdir(name, 0o755, dir_fd=folder)
        except FileExistsError:
            pass
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except OSError:
        if is_link(name, folder):
            raise Refused("bad_path", f"{name!r} on the way is a link, and links are not followed") from None
        raise


class Parent:
    """The open folder that a path ends in, as a context, and the last part of the path."""

    def __init__(self, work: int, path: str, make: bool = False) -> None:
        *folders, self.name = parts_of(path)
        self.fd = os.dup(work)
        try:
            for name in folders:
                inner = step(self.fd, name, make)
                os.close(self.fd)
                self.fd = inner
        except BaseException:
            os.close(self.fd)
            raise

    def __enter__(self) -> Parent:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def require_file(self) -> None:
        """Refuse what is there and no plain file, without opening it."""
        mode = os.stat(self.name, dir_fd=self.fd, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            raise Refused("bad_path", "it is a link, and links are not followed")
        if not stat.S_ISREG(mode):
            raise Refused("not_a_file", "it is a directory" if stat.S_ISDIR(mode) else "it is no plain file")


def open_file(name: str, folder: int) -> tuple[int, os.stat_result]:
    """Open a plain file for reading, and nothing else that may have come in its place."""
    fd = os.open(name, FILE, dir_fd=folder)
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode):
        os.close(fd)
        raise Refused("not_a_file", "it is no plain file")
    return fd, about


def read_piece(work: int, path: str, offset: int, limit: int) -> tuple[bytes, int]:
    """(up to ``limit`` bytes from ``offset``, the size of the whole)."""
    with Parent(work, path) as parent:
        parent.require_file()
        fd, about = open_file(parent.name, parent.fd)
        try:
            piece = os.pread(fd, limit, offset)
        finally:
            os.close(fd)
    return piece, about.st_size


def write_whole(work: int, path: str, content: bytes, mode: int) -> None:
    """Write a file so that whoever opens it sees the old or the new one."""
    with Parent(work, path, make=True) as parent:
        try:
            parent.require_file()
        except FileNotFoundError:
            pass
        name = f".{os.urandom(8).hex()}.partial"
        fd = os.open(name, NEW_FILE, 0o600, dir_fd=parent.fd)
        try:
            write_all(fd, content)
            os.fchmod(fd, mode)
            os.rename(name, parent.name, src_dir_fd=parent.fd, dst_dir_fd=parent.fd)
        except BaseException:
            os.unlink(name, dir_fd=parent.fd)
            raise
        finally:
            os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Agent:
    """Who commands run as, as a context: what is done with files is done with their rights and owned by them."""

    def __init__(self, uid: int | None, gid: int | None) -> None:
        self.uid, self.gid = uid, gid

    def __enter__(self) -> None:
        if self.gid is not None:
            os.setegid(self.gid)
        if self.uid is not None:
            os.seteuid(self.uid)

    def __exit__(self, *_: object) -> None:
        if self.uid is not None:
            os.seteuid(os.getuid())
        if self.gid is not None:
            os.setegid(os.getgid())


def put_start(work: int, entries: list[dict[str, Any]], tail: bytes) -> None:
    """Make what a sandbox begins with. The contents are in ``tail``, one after the other."""
    modes, at = [], 0
    for entry in entries:
        path, kind = entry["path"], entry.get("kind", "file")
        try:
            if kind == "file":
                content = entry.get("content")
                if content is None:
                    raise bad("has no content", f"start: {path}", "send the bytes of every file")
                at += content["bytes"]
                if at > len(tail):
                    raise bad("is cut off", f"start: {path}", "send a tail with all contents")
                write_whole(work, path, tail[at - content["bytes"] : at], entry.get("mode", 0o644))
            elif kind == "link":
                with Parent(work, path, make=True) as parent:
                    os.symlink(entry["target"], parent.name, dir_fd=parent.fd)
            else:
                with Parent(work, path + "/x", make=True):
                    modes.append((path, entry.get("mode", 0o755)))
        except (OSError, Refused) as error:
            fix = "see its path, and the sandbox's disk_bytes"
            raise bad(f"cannot be made: {error}", f"start: {path}", fix) from None
    for path, mode in reversed(modes):  # last of all: files go into folders that are not writable in the end
        with Parent(work, path + "/x") as parent:
            os.fchmod(parent.fd, mode)


READABLE, ENTERABLE = 0o400, 0o500
"""Of a file, and of a folder: the rights that its owner needs to copy it."""


class Walked:
    """An open folder that is being copied. ``mode`` is put back in the end, where its owner had closed it."""

    __slots__ = ("fd", "mode", "names", "prefix")

    def __init__(self, fd: int, prefix: str, mode: int) -> None:
        self.fd, self.prefix, self.mode = fd, prefix, mode
        self.names = iter(sorted(os.listdir(fd)))

    def close(self) -> None:
        try:
            if is_closed(self.mode, ENTERABLE):
                os.fchmod(self.fd, stat.S_IMODE(self.mode))
        finally:
            os.close(self.fd)


def is_closed(mode: int, needed: int) -> bool:
    return mode & needed != needed


WHY_NOT_COPIED = {errno.EWOULDBLOCK: "somebody holds a lease on it"}
LEASE_LOOKS = 1000


class Copy:
    """A copy of the work folder in the making: of each entry the JSON, and the contents beside it."""

    def __init__(self, known: dict[str, str], limit_bytes: int, patient: bool = False) -> None:
        """``patient``: nobody is frozen, so what is in the way of a file may go."""
        self.looks = LEASE_LOOKS if patient else 1
        self.known, self.left_bytes, self.left_entries = known, limit_bytes, MAX_ENTRIES
        self.left_json_bytes = MAX_COPIED_JSON_BYTES
        self.entries: list[tuple[str, bytes, list[bytes]]] = []
        self.skipped: list[str] = []
        self.skipped_more = 0

    def skip(self, path: str, why: str) -> None:
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped.append(f"{path.encode('utf-8', 'backslashreplace').decode()[:MAX_PATH_BYTES]}: {why}")
        else:
            self.skipped_more += 1

    def walk(self, work: int) -> None:
        """Take all that is below, by directory descriptors: a name is opened where it was seen, or not at all.

        Whoever owns a file can close it to itself, and it is there all the same: it is opened while it is copied.
        Nobody sees that but the dead and the frozen.
        """
        mode = os.fstat(work).st_mode
        if is_closed(mode, ENTERABLE):
            os.fchmod(work, stat.S_IMODE(mode) | ENTERABLE)
        stack = [Walked(os.dup(work), "", mode)]
        try:
            while stack:
                name = next(stack[-1].names, None)
                if name is None:
                    stack.pop().close()
                    continue
                path = stack[-1].prefix + name
                try:
                    inner = self.take(stack[-1].fd, name, path)
                    if inner is not None:
                        stack.append(inner)
                except OSError as error:
                    self.skip(path, WHY_NOT_COPIED.get(error.errno or 0) or os.strerror(error.errno or 0))
                except Refused as refused:
                    self.skip(path, refused.message)
        finally:
            while stack:
                stack.pop().close()

    def take(self, folder: int, name: str, path: str) -> Walked | None:
        """Take one entry; a folder, which is to be walked next."""
        parts_of(path)
        if not self.left_entries:
            raise Refused("", f"more than {MAX_ENTRIES} entries")
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISREG(mode):
            self.take_file(folder, name, path, mode)
        elif stat.S_ISLNK(mode):
            target = os.readlink(name, dir_fd=folder)
            if not target.isascii() and target != target.encode("utf-8", "replace").decode():
                raise Refused("", "what the link points to is no UTF-8")
            self.add(path, "link", 0o777, target=target)
        elif stat.S_ISDIR(mode):
            self.add(path, "directory", stat.S_IMODE(mode) & 0o777)
            return self.enter(folder, name, path, mode)
        else:
            raise Refused("", "no file, folder or link")
        return None

    def enter(self, folder: int, name: str, path: str, mode: int) -> Walked:
        if is_closed(mode, ENTERABLE):
            os.chmod(name, stat.S_IMODE(mode) | ENTERABLE, dir_fd=folder)
        return Walked(os.open(name, FOLDER, dir_fd=folder), path + "/", mode)

    def take_file(self, folder: int, name: str, path: str, mode: int) -> None:
        closed = is_closed(mode, READABLE)
        if closed:
            os.chmod(name, stat.S_IMODE(mode) | READABLE, dir_fd=folder)
        try:
            fd, about = self.open_file(name, folder)
        finally:
            if closed:
                os.chmod(name, stat.S_IMODE(mode), dir_fd=folder)
        try:
            if about.st_size > self.left_bytes:
                raise Refused("", f"{about.st_size} bytes are more than what is left of the limit")
            blocks = list(blocks_of(fd, about.st_size))
        finally:
            os.close(fd)
        digest, size = sha256(), sum(map(len, blocks))
        for block in blocks:
            digest.update(block)
        named = f"sha256:{digest.hexdigest()}"
        content = None if self.known.get(path) == named else blocks
        self.add(path, "file", stat.S_IMODE(mode) & 0o777, size, named, content=content)

    def open_file(self, name: str, folder: int) -> tuple[int, os.stat_result]:
        """A lease keeps others out for as long as its holder likes, or its end takes."""
        while True:
            try:
                return open_file(name, folder)
            except BlockingIOError:
                self.looks -= 1
                if self.looks <= 0:
                    raise
                time.sleep(FREEZE_PAUSE_S)

    def add(
        self, path: str, kind: str, mode: int, size: int = 0, digest: str = "", target: str = "",
        content: list[bytes] | None = None,
    ) -> None:  # fmt: skip
        entry = {"path": path, "kind": kind, "mode": mode, "size": size, "digest": digest, "target": target}
        kept = {} if content is None else {"content": {"bytes": size}}
        said = dumps({**entry, **kept}).encode("ascii")
        if len(said) > self.left_json_bytes:  # a byte of a name may be six in JSON
            raise Refused("", "the names of all entries are more than what a copy takes")
        self.left_entries -= 1
        self.left_json_bytes -= len(said) + 1
        self.left_bytes -= size
        self.entries.append((path, said, content or []))

    def reply(self) -> tuple[bytes, list[bytes]]:
        """(the JSON, the tail)."""
        if self.skipped_more:
            self.skipped.append(f"and {self.skipped_more} more")
        self.entries.sort(key=lambda entry: entry[0])
        said = b",".join(entry for _, entry, _ in self.entries)
        skipped = dumps(self.skipped).encode("ascii")
        tail = [block for *_, blocks in self.entries for block in blocks]
        return b'{"entries":[' + said + b'],"skipped":' + skipped + b"}", tail


def blocks_of(fd: int, size: int) -> Iterator[bytes]:
    """Not more of a file than it was said to have."""
    offset = 0
    while offset < size:
        block = os.pread(fd, min(BLOCK_BYTES, size - offset), offset)
        if not block:
            return
        yield block
        offset += len(block)


# --- Output -----------------------------------------------------------------------------------------------------


class Capture:
    """What is kept of one output: its first and its last half of ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit, self.total = limit, 0
        self.head, self.tail = bytearray(), bytearray()

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = self.limit // 2 - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > 2 * self.limit:  # not at every piece: a deletion moves all that is kept
            del self.tail[: -self.limit]

    def output(self) -> dict[str, Any]:
        """As ``schemas.sandbox.Output``."""
        if self.total <= self.limit:
            text, invalid = decoded(self.head + self.tail)
            return {"text": text, "total_bytes": self.total, "cut_bytes": 0, "invalid_utf8": invalid}
        head, tail = whole_end(self.head), whole_begin(self.tail[-(self.limit - self.limit // 2) :])
        cut = self.total - len(head) - len(tail)
        (first, one), (last, other) = decoded(head), decoded(tail)
        text = f"{first}\n[{cut} bytes cut]\n{last}"
        return {"text": text, "total_bytes": self.total, "cut_bytes": cut, "invalid_utf8": one or other}


def decoded(data: bytes | bytearray) -> tuple[str, bool]:
    try:
        return data.decode("utf-8"), False
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), True


def whole_end(data: bytearray) -> bytearray:
    """Without a character at the end that the cut went through."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return data[:-back] if needed > back else data
    return data


def whole_begin(data: bytearray) -> bytearray:
    """Without the rest of a character at the beginning that the cut went through."""
    for start in range(min(4, len(data))):
        if data[start] & 0xC0 != 0x80:
            return data[start:]
    return data


# --- Receipts ---------------------------------------------------------------------------------------------------


class Journal:
    """Every operation's receipts, a JSON object a line, written before anybody is told of what they say.

    The death of a process loses nothing that was written, and the death of the machine takes the sandbox with it:
    there is no need to wait for the disk, unless the sandbox's files outlive the machine (``sync``).
    Recorded replies are kept here and not in memory, which is the sandbox's own.
    """

    def __init__(self, fd: int) -> None:
        self.fd, self.end, self.sync = fd, os.fstat(fd).st_size, False

    def write(self, did: str, **fields: Any) -> None:
        self._append(dumps({"did": did, **fields}).encode("ascii"))

    def write_reply(self, op_id: str, reply: bytes) -> tuple[int, int]:
        """Record that an operation has ended. Where its reply is."""
        before = dumps({"did": "ended", "op": op_id})[:-1].encode("ascii") + b',"reply":'
        start = self.end + len(before)
        self._append(before + reply + b"}")
        return start, len(reply)

    def _append(self, line: bytes) -> None:
        try:
            write_all(self.fd, line + b"\n")
            if self.sync:
                os.fdatasync(self.fd)
        except OSError as error:
            raise JournalLost(f"the journal cannot be written: {error}") from error
        self.end += len(line) + 1

    def read(self, where: tuple[int, int]) -> bytes:
        start, length = where
        reply = os.pread(self.fd, length, start)
        if len(reply) != length:
            raise JournalLost("a recorded reply is not in the journal any more")
        return reply


class JournalLost(Exception):
    """Without a journal no promise can be kept: the supervisor ends, and the sandbox is lost."""


class Operation:
    """One operation from its acceptance on. ``askers`` are the requests that wait for its end."""

    __slots__ = (
        "argv", "askers", "began", "deadline", "digest", "do", "ended", "exit_code", "in_flight", "op_id",
        "outputs", "path", "pid", "release", "reply", "said", "signal", "started", "status", "timed_out",
    )  # fmt: skip

    def __init__(self, request: dict[str, Any], digest: str) -> None:
        self.op_id, self.do, self.digest = request["op_id"], request["do"], digest
        self.argv: list[str] = request.get("argv", [])
        self.path: str = request.get("path", "")
        self.askers: list[int] = []
        self.started = self.ended = self.in_flight = self.timed_out = False
        self.exit_code: int | None = None
        self.signal = ""
        self.reply = (0, 0)
        self.pid = self.status = self.release = -1
        self.said = b""
        self.began = 0.0
        self.deadline: Timer | None = None
        self.outputs: dict[int, Capture] = {}

    def facts(self) -> dict[str, Any]:
        """As ``schemas.sandbox.CommandRecord``."""
        return {
            "op_id": self.op_id, "do": self.do, "argv": self.argv, "path": self.path,
            "request_digest": self.digest, "started": self.started,
            "ended": self.ended and not self.in_flight, "exit_code": self.exit_code, "signal": self.signal,
        }  # fmt: skip


# --- Commands ---------------------------------------------------------------------------------------------------


class Recipe:
    """How commands are run: all that is the same for each of them."""

    def __init__(self, work: int, environment: dict[str, str], limits: dict[str, Any], agent: Agent, pid_one: bool):
        self.work, self.agent = work, agent
        self.most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.environment = {name.encode(): value.encode() for name, value in environment.items()}
        self.search = environment.get("PATH", "").split(":")
        unchangeable = (_signal.SIGKILL, _signal.SIGSTOP)
        own = (
            number for number in range(1, _signal.NSIG) if _signal.getsignal(number) not in (_signal.SIG_DFL, None)
        )
        self.handled = [number for number in own if number not in unchangeable]
        self.rlimits = [  # (what, (when it is told by a signal where there is one, when it is over))
            (resource.RLIMIT_CPU, within(resource.RLIMIT_CPU, limits["cpu_s"], 1)),
            (resource.RLIMIT_AS, within(resource.RLIMIT_AS, limits["memory_bytes"])),
            (resource.RLIMIT_FSIZE, within(resource.RLIMIT_FSIZE, limits["disk_bytes"])),
            (resource.RLIMIT_NOFILE, within(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)),
            (resource.RLIMIT_CORE, (0, 0)),
        ]
        if pid_one:  # it counts all processes of a user: without a namespace that is more than the sandbox's
            self.rlimits.append((resource.RLIMIT_NPROC, within(resource.RLIMIT_NPROC, limits["processes"])))

    def become(
        self, kernel: Kernel, argv: list[bytes], streams: list[int], status: int, gate: int, proc: int
    ) -> None:
        """In the child: be set up, wait to be released, and become the program. Returns only by raising."""
        for number in self.handled:
            _signal.signal(
                number, _signal.SIG_DFL
            )  # what is ignored here, or was by whoever started us, would stay so
        os.setsid()
        for kind, values in self.rlimits:
            resource.setrlimit(kind, values)
        if self.agent.gid is not None:
            os.setgroups([])
            os.setresgid(self.agent.gid, self.agent.gid, self.agent.gid)
        if self.agent.uid is not None:
            os.setresuid(self.agent.uid, self.agent.uid, self.agent.uid)
        kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
        os.fchdir(self.work)
        os.umask(0o022)
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        os.write(status, os.readlink("self", dir_fd=proc).encode() if proc >= 0 else b"")
        close_all_but(sorted((status, gate)), self.most_files)
        kernel.prctl(PR_SET_DUMPABLE, 1)  # or the supervisor could not open what says who is killed first
        os.write(status, READY)
        if os.read(gate, 1) != b"!":
            os._exit(127)  # nobody is left to release it
        os.execve(self.find(os.fsdecode(argv[0])), argv, self.environment)  # noqa: S606 it is what was asked for

    def find(self, program: str) -> str:
        """Where a program is: in ``PATH`` as the agent sees it, unless it is a path itself."""
        if "/" in program:
            return program
        for folder in self.search:
            path = f"{folder or '.'}/{program}"
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                return path
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def within(kind: int, value: int, more: int = 0) -> tuple[int, int]:
    """(soft, hard) limits: ``value``, and ``more`` until the end, as far as our own limit lets us."""
    most = resource.getrlimit(kind)[1]
    return (value, value + more) if most == resource.RLIM_INFINITY else (min(value, most), min(value + more, most))


READY = b"\n"
"""What a child says on its status between its number in ``PROC_FD`` and the error that kept it from its program."""


def close_all_but(kept: list[int], most: int) -> None:
    """Close all descriptors below ``most`` but the standard streams and those in ``kept``, which are in order."""
    first = 3
    for fd in (*kept, most):
        os.closerange(first, fd)
        first = fd + 1


class OutOfMemoryScores:
    """Makes commands the first that the kernel kills for want of memory; the supervisor never is one of them.

    The score is inherited, so a command must have it before it starts anything. If the supervisor had it while it
    forks, it would itself be killed by a fork for which there is no memory. A copy of the supervisor is closed to
    everybody, the supervisor included, and a program of the agent's must not wait. So the copy gives up all that is
    not the agent's, opens itself, and waits to be released.
    """

    def __init__(self, proc: int | None) -> None:
        """``proc`` is an open ``/proc`` that may be written to."""
        self.proc = os.open("/proc", FOLDER) if proc is None else proc

    def first_is(self, name: bytes) -> None:
        """``name`` is the number that a child of ours has in ``proc``."""
        try:
            fd = os.open(os.fsdecode(name) + "/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC, dir_fd=self.proc)
        except OSError:
            return  # it has ended, or the machine does not let us; then it decides by size
        try:
            os.write(fd, b"1000")
        except OSError:
            pass
        finally:
            os.close(fd)


def stdin_of(data: bytes) -> int:
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    try:
        write_all(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


# --- Programs ---------------------------------------------------------------------------------------------------

SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}
EXECS: dict[str, dict[int, tuple[tuple[int, ...], int]]] = {
    "x86_64": {0xC000003E: ((59, 322, 0x40000208), 8), 0x40000003: ((11, 358), 4)},
    "aarch64": {0xC00000B7: ((221, 281), 8), 0x40000028: ((11, 387), 4)},
}  # machine: {architecture of a call: (numbers of execve and execveat, bytes of a pointer)}
EXECVEAT = frozenset({322, 281, 358, 387, 0x40000221})
NEW_LISTENER, ALLOW_SPECULATION, WAIT_KILLABLE = 8, 4, 32
RECEIVE, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
NOTIFY, ALLOW = 0x7FC00000, 0x7FFF0000


def instruction(code: int, operand: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return code.to_bytes(2, "little") + bytes((when_true, when_false)) + operand.to_bytes(4, "little")


def exec_filter(machine: str) -> bytes:
    """A seccomp program that notifies of execve and execveat, and allows everything else."""
    program = instruction(LOAD, 4)
    for architecture, (numbers, _) in EXECS[machine].items():
        tests = b"".join(instruction(EQUAL, number, 0, 1) + instruction(RETURN, NOTIFY) for number in numbers)
        block = instruction(LOAD, 0) + tests + instruction(RETURN, ALLOW)
        program += instruction(EQUAL, architecture, 0, len(block) // 8) + block
    return program + instruction(RETURN, ALLOW)


class Programs:
    """Every program that was started, and which operation it descends from.

    The kernel is asked to stop each exec until it has been looked at, which is to see and not to forbid: what is
    read could be changed before the kernel reads it. Where a machine does not do that, programs are those that
    were alive at a look.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.fd = self._listen(kernel)
        self.pointer_bytes = {arch: size for arch, (_, size) in EXECS.get(os.uname().machine, {}).items()}
        self.seen: dict[int, tuple[int, str, int | None]] = {}  # pid: (start, operation, number of its record)
        self.records: list[dict[str, Any] | None] = []
        self.copies: set[int] = set()  # records of processes that had not become a program of their own yet
        self.not_kept = self.kept_bytes = 0
        self.leaders: dict[int, Operation] = {}  # of sessions, also those that have ended: others may be in them
        self.released: dict[int, Process] = {}  # leaders that have not become their programs yet

    def release(self, leader: Process, operation: Operation) -> None:
        """Expect the program of an operation."""
        self.leaders[leader.pid] = operation
        if self.fd >= 0:
            self.released[leader.pid] = leader
        else:
            self.add(leader, operation.argv, operation.op_id)

    @staticmethod
    def _listen(kernel: Kernel) -> int:
        machine = os.uname().machine
        if machine not in EXECS:
            return -1
        for more in (WAIT_KILLABLE, 0):  # since Linux 5.19: what we have heard of is not taken back by a signal
            flags = NEW_LISTENER | ALLOW_SPECULATION | more
            fd = kernel.listener(SECCOMP_CALL[machine], flags, exec_filter(machine))
            if fd >= 0:
                return fd
        return -1

    def on_exec(self) -> None:
        """One process waits at an exec: look at it, let it go on."""
        notice = bytearray(80)
        try:
            fcntl.ioctl(self.fd, RECEIVE, notice)
        except OSError:
            return  # it was killed meanwhile
        try:
            seen = self._read(notice)
        except (OSError, ValueError, OverflowError):
            seen = None
        answer = notice[:8] + bytes(12) + CONTINUE.to_bytes(4, "little")
        try:
            fcntl.ioctl(self.fd, SEND, answer)
        except OSError:
            return  # it was killed, or a signal has interrupted it and it will come again
        if seen is not None:
            self.add(*seen)

    def on_all_execs(self) -> None:
        """Let go on whoever waits now."""
        waiting = select.poll()
        if self.fd >= 0:
            waiting.register(self.fd, select.POLLIN)
            for _ in range(SEEN_AT_ONCE):
                if not any(event & select.POLLIN for _, event in waiting.poll(0)):
                    break
                self.on_exec()

    def _read(self, notice: bytearray) -> tuple[Process, list[str], str] | None:
        """(who, arguments, operation); ``None`` for an exec that will fail, as searches of ``PATH`` do."""
        pid = number(notice, 8, 4)
        leader = self.released.pop(pid, None)
        if leader is not None:  # it is a copy of the supervisor still
            return leader, self.leaders[pid].argv, self.leaders[pid].op_id
        task = look(pid)
        process = look(process_of(pid)) if task is not None and task.is_thread else task
        if process is None:
            return None
        op_id = self.operation_of(process)
        size = self.pointer_bytes[number(notice, 20, 4)]
        is_at = number(notice, 16, 4) in EXECVEAT
        path_at, argv_at = (number(notice, 32 + 8 * (index + is_at), 8) for index in (0, 1))
        try:
            memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return process, [read_file(f"/proc/{pid}/comm").decode("utf-8", "replace").strip()], op_id
        try:
            path = os.fsdecode(string_at(memory, path_at))
            argv = [string_at(memory, at).decode("utf-8", "replace") for at in pointers_at(memory, argv_at, size)]
        finally:
            os.close(memory)
        folder = number(notice, 32, 4) if is_at else AT_FDCWD
        return (process, argv, op_id) if may_exec(pid, folder, path) else None

    def add(self, process: Process, argv: list[str], op_id: str) -> None:
        """Record that a process has become a program."""
        start, _, known = self.seen.get(process.pid, (0, "", None))
        record = self.records[known] if known is not None and start == process.start else None
        if record is not None and known in self.copies:  # it was seen between its fork and this
            record["argv"] = argv
            self.copies.discard(known)
            return
        record = {"pid": process.pid, "parent": process.parent, "argv": argv, "op_id": op_id, "left": False}
        size = sum(map(len, argv))
        kept = None
        if len(self.records) < MAX_PROGRAMS and self.kept_bytes + size <= MAX_PROGRAM_BYTES:
            kept = len(self.records)
            self.records.append(record)
            self.kept_bytes += size
        else:
            self.not_kept += 1
        if len(self.seen) > 2 * MAX_PROGRAMS:
            alive = {one.pid for one in look_at_all()}
            self.seen = {pid: seen for pid, seen in self.seen.items() if pid in alive}
        self.seen[process.pid] = (process.start, op_id, kept)

    def operation_of(self, process: Process) -> str:
        """By itself, the nearest parent that is known, or the leader of its session; empty when it has left all."""
        session, me = process.session, os.getpid()
        one: Process | None = process
        while one is not None and one.pid not in (0, 1, me):
            seen = self.seen.get(one.pid)
            if seen is not None and seen[0] == one.start:
                return seen[1]
            one = look(one.parent)
        leader = self.leaders.get(session)
        return leader.op_id if leader is not None else ""

    def forget(self, pid: int) -> None:
        """The program of this leader has not been started after all."""
        _, _, number = self.seen.pop(pid, (0, "", None))
        if number is not None:
            self.records[number] = None

    def look_around(self, others: list[Process], left: bool = False) -> None:
        """Record who is there and not known. ``left``: at the seal."""
        for process in others:
            start, _, number = self.seen.get(process.pid, (0, "", None))
            if start != process.start and (left or self.fd < 0):
                self.add(process, command_line(process.pid), self.operation_of(process))
                number = self.seen[process.pid][2]
                if number is not None and self.fd >= 0:
                    self.copies.add(number)
            record = self.records[number] if number is not None else None
            if left and record is not None:
                record["left"] = True


AT_FDCWD = 0xFFFFFF9C


def number(notice: bytearray, at: int, size: int) -> int:
    """A number in ``struct seccomp_notif``."""
    return int.from_bytes(notice[at : at + size], "little")


def process_of(thread: int) -> int:
    """The process that a thread belongs to."""
    for line in read_file(f"/proc/{thread}/status").splitlines():
        if line.startswith(b"Tgid:"):
            return int(line[5:])
    return thread


def command_line(pid: int) -> list[str]:
    try:
        data = read_file(f"/proc/{pid}/cmdline", MAX_ARGUMENT_BYTES)
    except OSError:
        return []
    return [part.decode("utf-8", "replace") for part in data.rstrip(b"\0").split(b"\0")[:MAX_ARGUMENTS]]


def string_at(memory: int, address: int) -> bytes:
    return os.pread(memory, MAX_ARGUMENT_BYTES, address).split(b"\0", 1)[0] if address else b""


def pointers_at(memory: int, address: int, size: int) -> list[int]:
    """Up to the first null one."""
    data = os.pread(memory, size * MAX_ARGUMENTS, address) if address else b""
    found = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data) - size + 1, size)]
    return found[: found.index(0)] if 0 in found else found


def may_exec(pid: int, folder: int, path: str) -> bool:
    """Whether there is something to become; what cannot be looked at is taken for a program."""
    if not path.startswith("/"):
        base = f"/proc/{pid}/cwd" if folder == AT_FDCWD else f"/proc/{pid}/fd/{folder}"
        path = f"{base}/{path}" if path else base
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)
    return stat.S_ISREG(mode) and bool(mode & 0o111)


# --- The loop ---------------------------------------------------------------------------------------------------


class Timer:
    """Calls ``then`` at ``when``, a reading of the monotonic clock, unless it is cancelled."""

    __slots__ = ("then", "when")

    def __init__(self, when: float, then: Callable[[], None] | None) -> None:
        self.when, self.then = when, then

    def cancel(self) -> None:
        self.then = None


class Loop:
    """Calls whoever waits for a descriptor or a time."""

    def __init__(self) -> None:
        self._poll, self._calls = select.poll(), dict[int, "Callable[[], None]"]()
        self._timers: list[Timer] = []

    def on(self, fd: int, call: Callable[[], None], events: int = select.POLLIN) -> None:
        self._poll.register(fd, events)
        self._calls[fd] = call

    def off(self, fd: int) -> None:
        """No more of this descriptor, which is closed. Again: nothing happens."""
        if self.forget(fd):
            os.close(fd)

    def forget(self, fd: int) -> bool:
        """No more of this descriptor, which stays open; whether it was called for."""
        known = self._calls.pop(fd, None) is not None
        if known:
            self._poll.unregister(fd)
        return known

    def has(self, fd: int) -> bool:
        return fd in self._calls

    def after(self, delay_s: float, then: Callable[[], None]) -> Timer:
        timer = Timer(time.monotonic() + delay_s, then)
        self._timers.append(timer)
        return timer

    def turn(self) -> None:
        """Wait for something to happen, and call for all that has."""
        self._timers = [timer for timer in self._timers if timer.then is not None]
        wait_ms = None
        if self._timers:
            wait_ms = max(0.0, min(timer.when for timer in self._timers) - time.monotonic()) * 1000 + 0.5
        for fd, _ in self._poll.poll(wait_ms):
            call = self._calls.get(fd)
            if call is not None:
                call()
        now = time.monotonic()
        for timer in self._timers:
            then = timer.then
            if then is not None and timer.when <= now:
                timer.cancel()
                then()


class Again:
    """Pauses between looks at the same thing: short ones at first."""

    def __init__(self, limit_s: float) -> None:
        self.pause_s, self.until = 0.002, time.monotonic() + limit_s

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.until

    def next_s(self) -> float:
        self.pause_s = min(self.pause_s * 1.5, 0.05)
        return max(0.0, min(self.pause_s, self.until - time.monotonic()))


class HungUp(Exception):
    """The other side of the control socket is gone."""


class Control:
    """Frames in and out of the control socket."""

    def __init__(self, fd: int, loop: Loop, handle: Callable[[bytes, bytes], None]) -> None:
        self.fd, self._loop, self._handle = fd, loop, handle
        self._in, self._out = bytearray(), list[memoryview]()
        os.set_blocking(fd, False)
        loop.on(fd, self._ready)

    def send(self, body: list[bytes], tail: list[bytes]) -> None:
        """A frame of these pieces. Small ones are sent together; large ones are not copied once more."""
        idle = not self._out
        small = bytearray(b"".join(sum(map(len, pieces)).to_bytes(4, "big") for pieces in (body, tail)))
        for piece in (*body, *tail):
            if len(piece) < PIPE_BYTES:
                small += piece
                continue
            self._out += [memoryview(small), memoryview(piece)]
            small = bytearray()
        self._out.append(memoryview(small))
        if idle:
            self._write()

    def _ready(self) -> None:
        self._write()
        try:
            data = os.read(self.fd, 4 * PIPE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            raise HungUp from None
        if not data:
            raise HungUp
        self._in += data
        while len(self._in) >= 8:
            middle = 8 + int.from_bytes(self._in[:4], "big")
            end = middle + int.from_bytes(self._in[4:8], "big")
            if middle > 8 + MAX_JSON_BYTES or end > middle + MAX_TAIL_BYTES:
                raise HungUp  # what follows is out of step
            if len(self._in) < end:
                break
            with memoryview(self._in) as whole:
                body, tail = bytes(whole[8:middle]), bytes(whole[middle:end])
            del self._in[:end]
            self._handle(body, tail)

    def _write(self) -> None:
        done = 0
        try:
            for done in range(len(self._out)):
                while self._out[done]:
                    self._out[done] = self._out[done][os.write(self.fd, self._out[done]) :]
            self._out = []
            self._loop.on(self.fd, self._ready, select.POLLIN)
        except BlockingIOError:
            del self._out[:done]
            self._loop.on(self.fd, self._ready, select.POLLIN | select.POLLOUT)
        except OSError:
            raise HungUp from None


# --- The supervisor ---------------------------------------------------------------------------------------------


class Supervisor:
    """Answers requests. What a sandbox is told by ``setup`` is there from then on."""

    recipe: Recipe
    reach: Reach
    agent: Agent
    limits: dict[str, Any]

    def __init__(self, control: int, journal: int, proc: int | None = None) -> None:
        self.loop, self.kernel, self.journal = Loop(), Kernel(), Journal(journal)
        self.scores = OutOfMemoryScores(proc)
        self.kernel.stop_ignoring_its_own()
        self.kernel.prctl(PR_SET_DUMPABLE, 0)
        self.kernel.prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
        self.programs = Programs(self.kernel)
        if self.programs.fd >= 0:
            self.loop.on(self.programs.fd, self.programs.on_exec)
        self.operations: dict[str, Operation] = {}
        self.running: dict[int, Operation] = {}
        self.work = -1
        self.sealed, self.refused = False, 0
        self.drained: dict[str, Any] | None = None
        self.draining: list[int] = []
        self.seen: set[int] = set()
        self.killing = False
        self._watch_children()
        self.control = Control(control, self.loop, self.handle)
        gc.freeze()  # a collection that touches everything would copy everything that a child still shares

    def _watch_children(self) -> None:
        for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT):
            _signal.signal(number, _signal.SIG_IGN)
        self.woken, wake = os.pipe()
        for fd in (self.woken, wake):
            os.set_blocking(fd, False)
        _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        self.loop.on(self.woken, self.on_children)

    def run(self) -> None:
        """Serve until the other side hangs up; then end everything here."""
        try:
            while True:
                self.loop.turn()
        except (HungUp, JournalLost):
            pass
        finally:
            self.running.clear()  # nobody is told any more how they end
            again, self.killing = Again(KILL_S), True
            while self.work >= 0 and not self.reach.nobody() and not again.over:
                self.reach.kill()
                self._reap()
                time.sleep(again.next_s())

    # Requests

    def handle(self, body: bytes, tail: bytes) -> None:
        number = 0
        try:
            request = loads(body.decode("utf-8"))
            if not isinstance(request, dict) or not isinstance(request.get("id"), int):
                raise bad("a request is an object with an id")
            number = request["id"]
            request["tail"] = tail
            answer = self.answer(number, request)
        except Failure as failure:
            self.refuse(number, failure)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, OSError) as error:
            self.refuse(number, bad(f"a request that cannot be read: {type(error).__name__}: {error}"[:500]))
        else:
            if answer is not None:
                self.reply(number, answer)

    def reply(self, number: int, answer: dict[str, Any] | bytes, tail: list[bytes] | None = None) -> None:
        said = answer if isinstance(answer, bytes) else dumps(answer).encode("ascii")
        self.control.send([f'{{"id":{number},"ok":'.encode("ascii"), said, b"}"], tail or [])

    def refuse(self, number: int, failure: Failure) -> None:
        self.control.send([dumps({"id": number, "error": failure.said}).encode("ascii")], [])

    def answer(self, number: int, request: dict[str, Any]) -> dict[str, Any] | bytes | None:
        """The answer, or ``None`` when it comes later."""
        do = request.get("do")
        if do not in REQUESTS:
            raise bad(f"there is no request {do!r}"[:100], "do")
        if self.work < 0 and do not in ("setup", "ping"):
            raise bad("has not been set up", "sandbox", "send setup first")
        return REQUESTS[do](self, number, request)

    def ping(self, number: int, request: dict[str, Any]) -> dict[str, Any]:
        return {}

    def setup(self, number: int, request: dict[str, Any]) -> dict[str, Any]:
        """What this sandbox is, once: its files, environment, limits, and who its commands run as.

        ``work`` is the work folder, ``sync`` asks the journal to wait for the disk.
        """
        if self.work >= 0:
            raise bad("has been set up already", "sandbox")
        pid_one = bool(request.get("pid_one", False))
        if pid_one and os.getpid() != 1:
            raise bad("this supervisor is not PID 1 of a namespace of its own", "pid_one", "say so")
        path = request.get("work", "/work")
        usual = {"PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"), "HOME": path, "LANG": "C.UTF-8"}  # noqa: TID251 what the driver says of the place
        environment = usual | request.get("environment", {})
        for name, value in environment.items():
            if not name or "=" in name or "\0" in name + value or is_no_utf8(name + value):
                raise bad("is no name with a value", f"environment: {name[:100]!a}")
        limits, agent = request["limits"], Agent(request.get("uid"), request.get("gid"))
        work = os.open(path, FOLDER)
        try:
            recipe = Recipe(work, environment, limits, agent, pid_one)
            with agent:
                put_start(work, request.get("start", {}).get("entries", []), request["tail"])
        except BaseException:
            os.close(work)
            raise
        self.agent, self.recipe, self.limits, self.environment = agent, recipe, limits, environment
        self.reach, self.journal.sync, self.work = Reach(pid_one), bool(request.get("sync", False)), work
        return {}

    def call(self, number: int, request: dict[str, Any]) -> bytes | None:
        """An operation: its recorded reply, or later its reply, whoever asked first."""
        wanted, digest = request["request"], request["digest"]
        op_id = wanted["op_id"]
        operation = self.operations.get(op_id)
        if operation is None:
            operation = self.accept(wanted, digest)
        elif operation.digest != digest:
            raise Failure("DeliveryConflict", f"{op_id} was asked before with another request")
        if operation.ended:
            return self.journal.read(operation.reply)
        operation.askers.append(number)
        return None

    def accept(self, wanted: dict[str, Any], digest: str) -> Operation:
        op_id, do = wanted["op_id"], OPERATIONS[wanted["do"]]
        if not isinstance(op_id, str) or not isinstance(digest, str) or is_no_utf8(op_id):
            raise bad("is no id of an operation", "op_id")
        if self.sealed:
            self.refused += 1
            self.journal.write("refused", op=op_id, digest=digest)
            raise Failure("LateWrite", f"{op_id} came after the seal")
        operation = Operation(wanted, digest)
        check, begin = do
        ready = check(self, wanted)  # raises for what is no request, before anything is recorded
        self.operations[op_id] = operation
        self.journal.write("accepted", op=op_id, digest=digest)
        try:
            begin(self, operation, *ready)
        except Refused as refused:
            self.end(operation, {"code": refused.code, "message": refused.message})
        return operation

    def end(self, operation: Operation, outcome: dict[str, Any]) -> None:
        """Record how an operation ended, then tell those who wait."""
        reply = dumps({"op_id": operation.op_id, **outcome}).encode("ascii")
        operation.reply = self.journal.write_reply(operation.op_id, reply)
        operation.ended = True
        for number in operation.askers:
            self.reply(number, reply)
        operation.askers.clear()

    def snapshot(self, number: int, request: dict[str, Any]) -> None:
        """All files, while everything is frozen."""
        copy = Copy(
            dict(request.get("known", {})),
            min(self.limits["disk_bytes"], MAX_COPIED_BYTES),
            self.drained is not None,
        )
        stopped = self.reach.freeze(self.programs.on_all_execs)
        try:
            with self.agent:
                copy.walk(self.work)
        finally:
            self.reach.thaw(stopped)
        self.reply(number, *copy.reply())

    def settle(self, number: int, request: dict[str, Any]) -> None:
        """Tell when nobody is left, or that somebody is after ``limit_s``."""
        again = Again(float(request["limit_s"]))

        def see() -> None:
            nobody = self.reach.nobody()
            if self.programs.fd < 0:
                self.programs.look_around(self.reach.others())
            if nobody or again.over:
                self.reply(number, {"empty": nobody})
            else:
                self.loop.after(again.next_s(), see)

        see()

    def seal(self, number: int, request: dict[str, Any]) -> dict[str, Any]:
        if not self.sealed:
            self.sealed = True
            self.journal.write("sealed")
            self.programs.on_all_execs()
            self.programs.look_around(self.reach.others(), left=True)
        return {}

    def facts(self, number: int, request: dict[str, Any]) -> dict[str, Any]:
        if self.drained is None:
            raise bad("it is not drained", "sandbox", "drain it first")
        return {
            "environment": self.environment,
            "commands": [operation.facts() for operation in self.operations.values()],
            "processes": [record for record in self.programs.records if record is not None],
            "processes_not_kept": self.programs.not_kept,
            "watched": "every_exec" if self.programs.fd >= 0 else "snapshots",
            "drain": self.drained,
        }

    # Drain

    def drain(self, number: int, request: dict[str, Any]) -> dict[str, Any] | None:
        """End all others: TERM, ``term_s`` seconds, KILL. What is in flight now has not ended by itself."""
        if not self.sealed:
            raise bad("it is not sealed", "sandbox", "seal it first")
        if self.drained is not None:
            return self.drained
        self.draining.append(number)
        if len(self.draining) == 1:
            for operation in self.running.values():
                operation.in_flight = True
            self.seen = {process.pid for process in self.reach.others()}
            self.reach.signal(_signal.SIGTERM)
            self.reach.signal(_signal.SIGCONT)
            self._await_term(Again(float(request.get("term_s", TERM_S))))
        return None

    def _await_term(self, again: Again) -> None:
        alive = {process.pid for process in self.reach.others()}
        self.seen |= alive
        if not alive and self.reach.nobody():
            self._drained(len(self.seen), 0, True)
        elif again.over:
            self._await_kill(Again(KILL_S), len(self.seen - alive))
        else:
            self.loop.after(again.next_s(), lambda: self._await_term(again))

    def _await_kill(self, again: Again, ended_by_term: int) -> None:
        alive = {process.pid for process in self.reach.others()}
        self.seen |= alive
        empty = not alive and self.reach.nobody()
        if empty or again.over:
            self._drained(ended_by_term, len(self.seen - alive) - ended_by_term, empty)
        else:
            self.killing = True
            self.reach.kill()
            self.loop.after(again.next_s(), lambda: self._await_kill(again, ended_by_term))

    def _drained(self, by_term: int, by_kill: int, empty: bool) -> None:
        found = len(self.seen)
        counts = {"found": found, "ended_by_term": by_term, "ended_by_kill": by_kill}
        self.on_children()  # what was in flight has ended now, and its record is to say how
        self.drained = {**counts, "refused": self.refused, "empty": empty}
        self.journal.write("drained", **self.drained)
        for number in self.draining:
            self.reply(number, self.drained)

    # Operations

    def check_file(self, wanted: dict[str, Any]) -> tuple[Any, ...]:
        if not isinstance(wanted["path"], str) or is_no_utf8(wanted["path"]):
            raise bad("is no path", "path")
        if wanted["do"] == "read":
            return int(wanted.get("offset", 0)), min(int(wanted.get("limit", 65_536)), MAX_READ_BYTES)
        return binascii.a2b_base64(wanted["content"]), int(wanted.get("mode", 0o644)) & 0o777

    def begin_read(self, operation: Operation, offset: int, limit: int) -> None:
        def act() -> dict[str, Any]:
            piece, size = read_piece(self.work, operation.path, offset, limit)
            return {"read": {"content": as_text(piece), "size": size}}

        self.act(operation, act)

    def begin_write(self, operation: Operation, content: bytes, mode: int) -> None:
        def act() -> dict[str, Any]:
            write_whole(self.work, operation.path, content, mode)
            return {"write": {"size": len(content)}}

        self.act(operation, act)

    def act(self, operation: Operation, act: Callable[[], dict[str, Any]]) -> None:
        operation.started = True
        self.journal.write("started", op=operation.op_id)
        try:
            with self.agent:
                outcome = act()
        except (OSError, OverflowError) as error:
            number = getattr(error, "errno", None) or errno.EINVAL
            raise Refused(CODES.get(number, "denied"), f"{operation.path}: {os.strerror(number)}") from None
        self.end(operation, outcome)

    def check_exec(self, wanted: dict[str, Any]) -> tuple[Any, ...]:
        argv, timeout_s = wanted["argv"], float(wanted["timeout_s"])
        if not isinstance(argv, list) or not argv or not all(isinstance(one, str) for one in argv):
            raise bad("is no list of arguments", "argv")
        if any(is_no_utf8(one) for one in argv):
            raise bad("is no UTF-8", "argv")
        return timeout_s, binascii.a2b_base64(wanted.get("stdin", ""))

    def begin_exec(self, operation: Operation, timeout_s: float, data: bytes) -> None:
        """Fork, record that it has started, and only then release it."""
        fds: list[int] = []  # the child's ends, which are closed here in any case
        ours: list[int] = []
        try:
            fds.append(stdin_of(data))
            for _ in range(3):  # stdout, stderr, status
                read, write = os.pipe()
                ours.append(read)
                fds.append(write)
            gate, release = os.pipe()
            ours.append(release)
            fds.append(gate)
            pid = os.fork()
            if pid == 0:
                self._child(operation, fds)
        except OSError as error:
            for fd in ours:
                os.close(fd)
            raise Refused("cannot_start", cannot_start(operation.argv, error.errno or 0)) from None
        finally:
            for fd in fds:
                os.close(fd)
        self._watch(operation, pid, ours, timeout_s)

    def _child(self, operation: Operation, fds: list[int]) -> NoReturn:
        *streams, status, gate = fds
        try:
            if self.programs.fd >= 0:
                os.close(self.programs.fd)  # or it would wait for itself once the supervisor is gone
            argv = [argument.encode() for argument in operation.argv]
            self.recipe.become(self.kernel, argv, streams, status, gate, self.scores.proc)
        except OSError as error:
            os.write(status, READY + str(error.errno).encode())
        except BaseException:
            os.write(status, READY + str(errno.EINVAL).encode())
        finally:
            os._exit(127)

    def _watch(self, operation: Operation, pid: int, ours: list[int], timeout_s: float) -> None:
        out, err, operation.status, operation.release = ours
        operation.pid, operation.started = pid, True
        leader = look(pid)
        self.journal.write("started", op=operation.op_id, pid=pid, starttime=leader.start if leader else 0)
        self.running[pid] = operation
        if leader is not None:
            self.programs.release(leader, operation)
        for fd in (out, err, operation.status):
            os.set_blocking(fd, False)
        self.loop.on(operation.status, lambda: self.on_status(operation))
        for fd in (out, err):
            operation.outputs[fd] = Capture(self.limits["output_bytes"])
            self.loop.on(fd, lambda fd=fd: self.on_output(operation, fd))  # type: ignore[misc]
        operation.began = time.monotonic()
        within_s = min(timeout_s, self.limits["command_s"])
        operation.deadline = self.loop.after(within_s, lambda: self.on_timeout(operation))

    def on_status(self, operation: Operation) -> None:
        """Release a child that is ready. Later there may be an error, which is read when it has ended.

        Its number came before anybody else could write there; for the rest of it, others may have.
        """
        operation.said += self._heard(operation)
        name, ready, _ = operation.said.partition(READY)
        if not ready:
            return
        self.loop.forget(operation.status)
        if name:
            self.scores.first_is(name)
        self._let_go(operation, b"!")

    def _heard(self, operation: Operation) -> bytes:
        try:
            return os.read(operation.status, 64)
        except BlockingIOError:
            return b""  # somebody holds the other end; the command itself has let go of it

    def _let_go(self, operation: Operation, word: bytes = b"") -> None:
        if operation.release < 0:
            return
        try:
            os.write(operation.release, word)
        except OSError:
            pass  # it was killed before
        os.close(operation.release)
        operation.release = -1

    def on_output(self, operation: Operation, fd: int, limit: int = PIPE_BYTES) -> None:
        try:
            data = os.read(fd, limit)
        except BlockingIOError:
            return
        operation.outputs[fd].feed(data)
        if not data:
            self.loop.off(fd)

    def on_timeout(self, operation: Operation) -> None:
        if operation.pid in self.running:
            operation.timed_out = True
            kill_session(operation.pid)

    def on_children(self) -> None:
        """Collect whoever has ended: commands, and orphans, which would fill the limit of processes."""
        try:
            os.read(self.woken, 512)
        except BlockingIOError:
            pass
        if self._reap() == REAPED_AT_ONCE:
            self.loop.after(0, self.on_children)

    def _reap(self) -> int:
        for count in range(REAPED_AT_ONCE):
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return count
            if ended is None:
                return count
            if self.killing:
                kill_group_of(ended.si_pid)  # one that goes on in a new process all the time is there still
            pid, status = os.waitpid(ended.si_pid, 0)
            if self.killing and os.WIFSIGNALED(status):
                self.seen.add(pid)
            operation = self.running.pop(pid, None)
            if operation is not None:
                self.on_end(operation, status)
        return REAPED_AT_ONCE

    def on_end(self, operation: Operation, status: int) -> None:
        """The leader has ended; whatever it left behind may hold its outputs open for ever."""
        if operation.deadline is not None:
            operation.deadline.cancel()
        self.programs.released.pop(operation.pid, None)
        failure = (operation.said + self._heard(operation)).rpartition(READY)[2][:4]
        self.loop.forget(operation.status)
        os.close(operation.status)
        self._let_go(operation)
        outputs = [self.last_output(operation, fd) for fd in operation.outputs]
        operation.outputs = {}
        if failure.isdigit():
            self.programs.forget(operation.pid)
            message = cannot_start(operation.argv, int(failure))
            return self.end(operation, {"code": "cannot_start", "message": message})
        if os.WIFSIGNALED(status):
            operation.signal = SIGNALS.get(os.WTERMSIG(status), f"signal {os.WTERMSIG(status)}")
        else:
            operation.exit_code = os.WEXITSTATUS(status)
        if self.programs.fd < 0:
            self.programs.look_around(self.reach.others())
        result = {
            "exit_code": operation.exit_code, "signal": operation.signal, "timed_out": operation.timed_out,
            "stdout": outputs[0], "stderr": outputs[1],
            "duration_s": round(time.monotonic() - operation.began, 6),
        }  # fmt: skip
        return self.end(operation, {"exec": result})

    def last_output(self, operation: Operation, fd: int) -> dict[str, Any]:
        """What is in the pipe at this moment, and no more: somebody may go on writing."""
        if self.loop.has(fd):
            waiting = bytearray(4)
            fcntl.ioctl(fd, FIONREAD, waiting)
            self.on_output(operation, fd, int.from_bytes(waiting, "little") or 1)
            self.loop.off(fd)
        return operation.outputs[fd].output()


FIONREAD = 0x541B

REQUESTS: dict[str, Callable[[Supervisor, int, dict[str, Any]], dict[str, Any] | bytes | None]] = {
    "ping": Supervisor.ping,
    "setup": Supervisor.setup,
    "call": Supervisor.call,
    "snapshot": Supervisor.snapshot,
    "settle": Supervisor.settle,
    "seal": Supervisor.seal,
    "drain": Supervisor.drain,
    "facts": Supervisor.facts,
}

OPERATIONS: dict[str, tuple[Callable[..., tuple[Any, ...]], Callable[..., None]]] = {
    "exec": (Supervisor.check_exec, Supervisor.begin_exec),
    "read": (Supervisor.check_file, Supervisor.begin_read),
    "write": (Supervisor.check_file, Supervisor.begin_write),
}


def is_no_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def cannot_start(argv: list[str], number: int) -> str:
    return f"{argv[0][:200]}: {os.strerror(number)}"


def keep_descriptors_to_ourselves() -> None:
    """No program here inherits what the supervisor was started with, and 0, 1 and 2 are something."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                pass  # the one that listed the folder


def main(control: int, journal: int, proc: int | None = None) -> None:
    """Be the supervisor until the other side of ``control`` hangs up."""
    keep_descriptors_to_ourselves()
    Supervisor(control, journal, proc).run()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
