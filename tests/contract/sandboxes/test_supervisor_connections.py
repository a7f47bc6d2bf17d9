"""Attempts to reach somebody else, and to have names resolved. In a network of its own nothing is ever sent."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schemas.told import ConnectionAttempt
from tests.contract.sandboxes.supervised import NO_LISTENER, Supervised, changed, supervised
from tiltyard.errors import SandboxLost

LOOPBACK = """
import ctypes, fcntl, os, socket, struct, sys
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))
for capability in range(64):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # no more of it
os.execv(sys.argv[1], sys.argv[1:])
"""

ALONE = ("unshare", "-rn", "--", sys.executable, "-I", "-S", "-c", LOOPBACK)
"""Before a supervisor: a network with a loopback interface and no other, and no rights beyond a user's."""

LIBC = """
import ctypes, errno, os, socket, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)

def tries(call, *arguments):
    try:
        call(*arguments)
    except OSError:
        pass

def udp(family=socket.AF_INET):
    return socket.socket(family, socket.SOCK_DGRAM)
"""

QUERY = "b'\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0' + b'\\x04pypi\\x03org\\0' + b'\\0\\x01\\0\\x01'"
"""What libc sends to ask for ``pypi.org``."""


async def attempts(den: Supervised) -> list[ConnectionAttempt]:
    await den.link.ask("seal")
    await den.link.ask("drain", term_s=60)
    return list((await den.facts()).connections)


def said(found: list[ConnectionAttempt]) -> list[tuple[str, int, str, str, int]]:
    return [(one.address, one.port, one.name, one.op_id, one.count) for one in found]


async def each_way_to_an_address_is_seen(den: Supervised) -> None:
    script = LIBC + (
        "tries(socket.create_connection, ('192.0.2.1', 80), 5)\n"
        "tries(socket.socket(socket.AF_INET6).connect, ('2001:db8::1', 81))\n"
        "tries(udp().sendto, b'x', ('192.0.2.2', 82))\n"
        "tries(udp().sendmsg, [b'x'], [], 0, ('192.0.2.3', 83))\n"
        "tries(udp(socket.AF_INET6).sendto, b'x', ('::ffff:192.0.2.4', 84))\n"
        "to = struct.pack('=H', 2) + struct.pack('!H', 85) + bytes([192, 0, 2, 5]) + bytes(8)\n"
        "to = ctypes.create_string_buffer(to)\n"
        "part = ctypes.create_string_buffer(struct.pack('=QQ', ctypes.addressof(to), 1))\n"
        "many = ctypes.create_string_buffer(\n"
        "    struct.pack('=QQQQQQQ', ctypes.addressof(to), 16, ctypes.addressof(part), 1, 0, 0, 0) + bytes(8))\n"
        "libc.sendmmsg(udp().fileno(), many, 1, 0)\n"
        "of_no_family = bytes(2) + struct.pack('!H', 86) + bytes([192, 0, 2, 6]) + bytes(8)\n"
        "libc.sendto(udp().fileno(), b'x', 1, 0, of_no_family, 16)\n"
    )
    await den.python(script, op_id="a")
    assert said(await attempts(den)) == [
        ("192.0.2.1", 80, "", "a", 1),
        ("2001:db8::1", 81, "", "a", 1),
        ("192.0.2.2", 82, "", "a", 1),
        ("192.0.2.3", 83, "", "a", 1),
        ("192.0.2.4", 84, "", "a", 1),
        ("192.0.2.5", 85, "", "a", 1),
        ("192.0.2.6", 86, "", "a", 1),
    ]


async def a_name_that_is_asked_for_is_told(den: Supervised) -> None:
    """As libc asks: a connected socket, and a message without an address. And as others do."""
    script = LIBC + (
        f"query = {QUERY}\n"
        "line = udp()\n"
        "line.connect(('127.0.0.1', 53))\n"
        "tries(line.send, query, 0x4000)\n"
        "tries(udp().sendto, query.replace(b'pypi', b'wiki'), ('127.0.0.53', 53))\n"
        "tries(line.sendmsg, [query.replace(b'org', b'com')])\n"
    )
    await den.python(script, op_id="a")
    assert said(await attempts(den)) == [
        ("127.0.0.1", 53, "pypi.org", "a", 2),
        ("127.0.0.53", 53, "wiki.org", "a", 1),
        ("127.0.0.1", 53, "pypi.com", "a", 1),
    ]


async def libc_itself_is_overheard(den: Supervised) -> None:
    """Whichever name servers it has been told: none can be reached."""
    await den.python(LIBC + "tries(socket.getaddrinfo, 'no-such-host.example', 80)", op_id="a")
    found = await attempts(den)
    assert found, "nobody saw it ask"
    assert {(one.port, one.op_id) for one in found} == {(53, "a")}


async def what_stays_inside_is_not_told(den: Supervised) -> None:
    script = LIBC + (
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "client = socket.create_connection(server.getsockname())\n"
        "client.sendall(b'x' * 100); client.sendmsg([b'x'])\n"
        "tries(udp().sendto, b'x', ('0.0.0.0', 9))\n"
        "tries(udp(socket.AF_INET6).sendto, b'x', ('::1', 9))\n"
        "one, other = socket.socketpair(); one.sendmsg([b'x']); one.send(b'x')\n"
        "tries(socket.socket(socket.AF_UNIX).connect, '/nowhere')\n"
        "print(client.getpeername()[0])\n"
    )
    assert await den.python(script) == "127.0.0.1\n"
    assert said(await attempts(den)) == []


async def who_does_it_is_found(den: Supervised) -> None:
    """A background child of an earlier command, from one of its threads."""
    script = LIBC + (
        "def reach():\n"
        "    while not os.path.exists('go'): pass\n"
        "    tries(udp().sendto, b'x', ('192.0.2.1', 80))\n"
        "    open('done', 'w')\n"
        "thread = threading.Thread(target=reach); thread.start(); open('on', 'w'); thread.join()\n"
    )
    await den.write("reach.py", script.encode())
    await den.sh("python3 reach.py >/dev/null 2>&1 &", op_id="early")
    await den.appears("on")
    await den.sh("echo > go; while [ ! -e done ]; do sleep 0.01; done", op_id="late")
    assert said(await attempts(den)) == [("192.0.2.1", 80, "", "early", 1)]


async def who_has_closed_itself_is_told_too(den: Supervised) -> None:
    script = LIBC + "libc.prctl(4, 0)\ntries(udp().sendto, b'x', ('192.0.2.1', 80))\n"
    await den.python(script, op_id="a")
    assert [(one.op_id, one.count) for one in await attempts(den)] == [("a", 1)]


async def nonsense_hurts_nobody(den: Supervised) -> None:
    script = LIBC + (
        "line = udp().fileno()\n"
        "for where in (0, 1, 8, 2**47, 2**63, 2**64 - 8):\n"
        "    for size in (0, 1, 16, 2**31):\n"
        "        there = ctypes.c_void_p(where)\n"
        "        libc.connect(line, there, size)\n"
        "        libc.sendto(line, there, ctypes.c_size_t(size), 0x4000, there, size)\n"
        "        libc.sendmsg(line, there, 0)\n"
        "        libc.sendmmsg(line, there, ctypes.c_uint(size), 0)\n"
        "packed = ctypes.create_string_buffer(b'\\xff' * 4096)\n"
        "libc.sendmsg(line, packed, 0); libc.sendmmsg(line, packed, 1024, 0)\n"
        "one = bytes(5) + b'\\x01' + bytes(6)\n"
        "for query in (b'', b'\\xff' * 40, bytes(12) + b'\\xff', one + b'\\x3f' + b'x' * 70):\n"
        "    tries(udp().sendto, query, ('127.0.0.1', 53))\n"
        "print('there')\n"
    )
    assert await den.python(script) == "there\n"
    assert await den.out("echo said") == "said\n"
    assert {one.port for one in await attempts(den)} <= {53}


CHECKS = (
    each_way_to_an_address_is_seen,
    a_name_that_is_asked_for_is_told,
    libc_itself_is_overheard,
    what_stays_inside_is_not_told,
    who_does_it_is_found,
    who_has_closed_itself_is_told_too,
    nonsense_hurts_nobody,
)


CALLS = "        for number, name in SENDS.get(architecture, {}).items():\n"


def not_told(call: str) -> tuple[str, str]:
    """A change to the supervisor: the kernel does not tell of this call."""
    return CALLS, f"{CALLS}            if name == {call}:\n                continue\n"


@pytest.fixture(autouse=True)
def alone() -> None:
    ended = subprocess.run([*ALONE, "/bin/true"], capture_output=True, text=True)
    if ended.returncode:
        pytest.skip(f"no network of its own can be made here: {ended.stderr.strip()}")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_connections(check: Any, tmp_path: Path) -> None:
    async with supervised(tmp_path, before=ALONE) as den:
        await check(den)


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (each_way_to_an_address_is_seen, *not_told("CONNECT")),
        (each_way_to_an_address_is_seen, *not_told("SEND_TO")),
        (each_way_to_an_address_is_seen, *not_told("SEND_MESSAGE")),
        (each_way_to_an_address_is_seen, *not_told("SEND_MESSAGES")),
        (libc_itself_is_overheard, *not_told("CONNECT")),
        (each_way_to_an_address_is_seen, "or (family == AF_UNSPEC and sends)", ""),
        (each_way_to_an_address_is_seen, "whole[12:] if whole.startswith(MAPPED) else whole", "whole"),
        (a_name_that_is_asked_for_is_told, "instruction(EQUAL, MSG_NOSIGNAL, 0, 3)", "instruction(EQUAL, 1, 0, 3)"),
        (a_name_that_is_asked_for_is_told, "            self._asking[line] = to\n", "            pass\n"),
        (a_name_that_is_asked_for_is_told, "return port == NAMES or not", "return not"),
        (what_stays_inside_is_not_told, "not (here or unspecified)", "True"),
        (who_does_it_is_found, "        op_id = self.operation_of(sender)\n", "        op_id = ''\n"),
        (who_has_closed_itself_is_told_too, 'return [(UNREADABLE, "")]', "return []"),
        (
            nonsense_hurts_nobody,
            "        except (OSError, ValueError, OverflowError):\n            record = None",
            "        finally:\n            pass",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_supervisor_that_looks_away_is_caught(check: Any, old: str, new: str, tmp_path: Path) -> None:
    async with supervised(tmp_path, changed(old, new, tmp_path), ALONE) as den:
        with pytest.raises((AssertionError, SandboxLost)):
            await check(den)


async def test_many_are_counted(tmp_path: Path) -> None:
    names = "MAX_COMMANDS, MAX_READS, MAX_CONNECTIONS, MAX_MARKS, MAX_ASKING = 10_000, 1000, 1000, 2000, 1000"
    program = changed(names, names.replace("1000, 1000, 2000, 1000", "1000, 5, 2000, 2"), tmp_path)
    script = LIBC + (
        "for port in range(1, 21):\n    tries(udp().sendto, b'x', ('192.0.2.1', port))\n"
        "for _ in range(30):\n    tries(udp().sendto, b'x', ('192.0.2.1', 1))\n"
        "for _ in range(9):\n    tries(udp().connect, ('127.0.0.1', 53))\n"
    )
    async with supervised(tmp_path, program, ALONE) as den:
        await den.python(script)
        found = await attempts(den)
        assert [(one.port, one.count) for one in found] == [(1, 31), (2, 1), (3, 1), (4, 1), (5, 1)]
        assert (await den.facts()).connections_not_kept == 15 + 9


async def test_where_the_machine_does_not_tell_nothing_is_known(tmp_path: Path) -> None:
    async with supervised(tmp_path, changed(*NO_LISTENER, tmp_path), ALONE) as den:
        await den.python(LIBC + "tries(udp().sendto, b'x', ('192.0.2.1', 80))")
        assert await attempts(den) == []
        assert (await den.facts()).watched == "snapshots"


async def test_the_journal_knows_of_it_at_once(tmp_path: Path) -> None:
    """Whoever kills the supervisor afterwards has been seen."""
    async with supervised(tmp_path, before=ALONE) as den:
        await den.python(LIBC + "tries(udp().sendto, b'x', ('192.0.2.1', 80))", op_id="a")
        told = [json.loads(line) for line in den.journal.read_bytes().splitlines()]
        (reached,) = [line for line in told if line["did"] == "reached"]
        assert (reached["address"], reached["port"], reached["op_id"]) == ("192.0.2.1", 80, "a")
