"""Running a command in a sandbox, all the way from a worker, against bare fork and exec of the same program."""

import itertools
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from infra.local.stack import Say
from infra.sandboxes.client import HostClient
from ops.bench.figures import Figure, Measure, Target, interleaved, timed, timed_call
from ops.bench.stack import stack
from schemas.operation import ExecRequest
from schemas.sandbox import DriverName, SandboxOrder, SandboxRef
from schemas.world import Owner
from tiltyard.errors import EnvironmentFailed

ROUNDS = 200
DRIVERS: tuple[DriverName, ...] = ("bubblewrap", "unsafe-local")
WITHIN_S = 60.0

Argv = tuple[str, ...]
Boxes = Mapping[DriverName, SandboxRef | str]
"""A sandbox of each driver, or why there is none."""

PROGRAMS: Mapping[str, tuple[Argv, Argv]] = {
    "/bin/true": (("/bin/true",), ("/bin/true",)),
    "python3 -ISc pass": (
        (os.path.realpath(sys.executable), "-I", "-S", "-c", "pass"),
        ("python3", "-I", "-S", "-c", "pass"),
    ),
}
"""What is run: outside, and in a sandbox, which has the same Python."""

AT_MOST = Target(most=4, judged_from=ROUNDS)


async def measure(most: int, say: Say) -> list[Figure]:
    """Each program outside, and in a sandbox of each driver, in turn."""
    async with stack(say) as ours, HostClient(ours.settings.sandboxes_socket) as host, AsyncExitStack() as made:
        boxes: dict[DriverName, SandboxRef | str] = {}
        for name in DRIVERS:
            why_not = await ours.unavailable(name)
            boxes[name] = why_not or await made.enter_async_context(_sandbox(host, name))
        figures = [await _compared(program, min(ROUNDS, most), host, boxes) for program in PROGRAMS]
    return [figure for some in figures for figure in some]


async def _compared(program: str, rounds: int, host: HostClient, boxes: Boxes) -> list[Figure]:
    outside, inside = PROGRAMS[program]
    with _forker(outside) as forked:
        measures: dict[str, Measure] = {
            "fork and exec": forked,
            "posix_spawn": timed_call(lambda: _spawned(outside)),
            "subprocess.run": timed_call(lambda: _run(outside)),
            **{name: _boxed(host, box, inside) for name, box in boxes.items() if isinstance(box, SandboxRef)},
        }
        series = await interleaved(measures, rounds)
    bare, *others = [Figure.of(f"{program}, {name}", values) for name, values in series.items()]
    skipped = [
        Figure(what=f"{program}, {name}", skipped=box) for name, box in boxes.items() if isinstance(box, str)
    ]
    spawn, run, *boxed = others
    return [
        bare,
        *(figure.over(bare) for figure in (spawn, run)),
        *(figure.over(bare, AT_MOST) for figure in boxed),
        *(_renamed(figure.over(spawn), f"{figure.what}, against posix_spawn") for figure in boxed),
        *skipped,
    ]


def _renamed(figure: Figure, what: str) -> Figure:
    return figure.model_copy(update={"what": what})


FORKER = """
import os, sys, time
while os.read(0, 1):
    began = time.perf_counter_ns()
    child = os.fork()
    if child == 0:
        os.execve(sys.argv[1], sys.argv[1:], {})
    os.waitpid(child, 0)
    os.write(1, b"%d\\n" % (time.perf_counter_ns() - began))
"""
"""Forks, execs and waits, once for each byte that it reads: the bare thing, in a process that has nothing else in
memory, for to fork costs what has to be copied."""


@contextmanager
def _forker(argv: Argv) -> Iterator[Measure]:
    """Measures a bare fork, exec and wait of ``argv``."""
    command = [sys.executable, "-I", "-S", "-c", FORKER, *argv]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asks, told = process.stdin, process.stdout

        async def measure() -> float:
            asks.write(b"!")
            return int(told.readline()) / 1e9

        yield measure
        asks.close()


def _spawned(argv: Argv) -> None:
    """The least that starting a program and waiting for its end can cost from Python."""
    os.waitpid(os.posix_spawn(argv[0], argv, {}), 0)


def _run(argv: Argv) -> None:
    """As a program would do it that wants the output."""
    subprocess.run(argv, env={}, capture_output=True, check=True)


def _boxed(host: HostClient, box: SandboxRef, argv: Argv) -> Measure:
    numbers = itertools.count()

    async def run() -> None:
        request = ExecRequest(op_id=f"{argv[0]}-{next(numbers)}", argv=argv, timeout_s=WITHIN_S)
        reply = await host.call(box, request)
        if reply.exec is None or reply.exec.exit_code != 0:
            raise EnvironmentFailed(f"{argv[0]} did not run: {reply.code} {reply.message}")

    return timed(run)


@asynccontextmanager
async def _sandbox(host: HostClient, driver: DriverName) -> AsyncIterator[SandboxRef]:
    owner = Owner(cluster="bench", temporal_namespace="default", workflow_id="bench", first_run_id="bench")
    order = SandboxOrder(
        driver=driver, name=f"bench-{driver}", incarnation=1, owner=owner, episode_id=f"bench-{driver}"
    )
    box = await host.provision(order)
    try:
        yield box
    finally:
        await host.release(box)
