"""A little shell for the sandbox fake. Whatever it takes, a real ``sh`` does the same with.

A script is a list of commands with ``;``, new lines, ``&&`` and ``&`` between them, and the commands are those of
``COMMANDS``, each with ``> FILE``, ``>> FILE`` or ``>&2`` behind it if need be. Words may be quoted. All else is
refused with ``BadInput`` before anything runs: a double that guesses would hide what a real shell does.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from tiltyard.errors import BadInput
from tiltyard.testing.memory_files import FileRefused, MemoryFiles

__all__ = ["COMMANDS", "Forks", "Outputs", "Program", "Shell", "parse"]

_TOKEN = re.compile(
    r"""(?P<sign>&&|>>|>&2|[;&>\n])|(?P<word>(?:'[^'\n]*'|"[^"$`\\\n]*"|[\w./=:,@%+-]+)+)|[ \t]+""", re.ASCII
)
PATH = r"(?!-)(?!\.{1,2}(/|$| ))[^/ ]+(/(?!\.{1,2}(/|$| ))[^/ ]+)*"
"""A path below the working directory."""

_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")

Program = Callable[[Sequence[str], bytes, MemoryFiles], tuple[int, str]]
"""A program of a test's own: its arguments, its input and the files → exit code and output."""


@dataclass(frozen=True)
class Simple:
    """One command: its words and where its output goes (``>``, ``>>`` with a file, ``>&2``, or nothing)."""

    argv: tuple[str, ...]
    sign: str = ""
    file: str = ""


@dataclass(frozen=True)
class Item:
    """Commands joined by ``&&``."""

    chain: tuple[Simple, ...]
    background: bool


@dataclass
class Outputs:
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)


class Forks:
    """What a shell needs of the place that it runs in."""

    def program(self, argv: tuple[str, ...]) -> AbstractContextManager[None]:
        """A program runs as long as the block."""
        raise NotImplementedError

    def background(self, work: Coroutine[Any, Any, object]) -> None:
        """Go on with ``work`` while the shell does the rest."""
        raise NotImplementedError


class Exit(Exception):
    """``exit N``."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def parse(script: str, programs: Mapping[str, Program]) -> tuple[Item, ...]:
    """The commands of a script. Raises ``BadInput`` for what is not in the vocabulary."""
    items: list[Item] = []
    chain: list[Simple] = []
    words: list[tuple[str, bool]] = []
    for text, is_sign in [*_tokens(script), ("\n", True)]:
        if not is_sign or text.startswith(">"):
            words.append((text, is_sign))
            continue
        if not words:
            if text != "\n":
                raise _unknown(script, f"nothing stands before {text!r}")
            continue
        chain.append(_simple(script, words, programs))
        words = []
        if text != "&&":
            items.append(Item(tuple(chain), text == "&"))
            chain = []
    if chain:
        raise _unknown(script, "nothing stands behind '&&'")
    return tuple(items)


def _tokens(script: str) -> list[tuple[str, bool]]:
    tokens, position = [], 0
    while position < len(script):
        found = _TOKEN.match(script, position)
        if found is None:
            raise _unknown(script, f"{script[position : position + 20]!r} is not in its vocabulary")
        position = found.end()
        if found["sign"]:
            tokens.append((found["sign"], True))
        elif found["word"]:
            tokens.append((_QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", found["word"]), False))
    return tokens


def _simple(script: str, words: list[tuple[str, bool]], programs: Mapping[str, Program]) -> Simple:
    signs = [index for index, (_, is_sign) in enumerate(words) if is_sign]
    cut = signs[0] if signs else len(words)
    argv = tuple(text for text, _ in words[:cut])
    redirect = [text for text, _ in words[cut:]]
    expected = {">": 2, ">>": 2, ">&2": 1}
    if len(signs) > 1 or (redirect and expected[redirect[0]] != len(redirect)):
        raise _unknown(script, "one redirection may stand behind a command")
    if not argv or not (argv[0] in programs or _in_vocabulary(argv)):
        raise _unknown(script, f"{' '.join(argv)!r} is not in its vocabulary")
    if redirect[1:] and not re.fullmatch(PATH, redirect[1]):
        raise _unknown(script, f"{redirect[1]!r} is not below the working directory")
    if redirect and (argv[0] == "exit" or (argv[0] == "cat" and redirect[-1] in argv)):
        raise _unknown(script, "systems do not agree on such a redirection")
    return Simple(argv, *redirect)


def _in_vocabulary(argv: tuple[str, ...]) -> bool:
    return argv[0] in COMMANDS and bool(re.fullmatch(COMMANDS[argv[0]].arguments, " ".join(argv[1:]), re.DOTALL))


def _unknown(script: str, why: str) -> BadInput:
    return BadInput(
        f"the fake's shell cannot run {script!r}: {why}", field="argv", fix=f"use {', '.join(COMMANDS)}"
    )


@dataclass
class Shell:
    """Runs one script. ``run`` gives its exit status."""

    files: MemoryFiles
    environment: Mapping[str, str]
    stdin: bytes
    outputs: Outputs
    forks: Forks
    programs: Mapping[str, Program] = field(default_factory=dict)

    async def run(self, items: Sequence[Item]) -> int:
        status = 0
        try:
            for item in items:
                if item.background:
                    self.forks.background(self._background(item))
                    status = 0
                else:
                    status = await self._chain(item)
        except Exit as end:
            return end.status
        return status

    async def _background(self, item: Item) -> None:
        child = Shell(self.files, self.environment, b"", self.outputs, self.forks, self.programs)
        await child.run((Item(item.chain, background=False),))

    async def _chain(self, item: Item) -> int:
        for simple in item.chain:
            status = await self._simple(simple)
            if status != 0:
                return status
        return status

    async def _simple(self, simple: Simple) -> int:
        out = bytearray()
        try:
            if simple.file:
                appending = simple.sign == ">>" and self.files.find(simple.file) is not None
                self.files.write(simple.file, self.files.read(simple.file) if appending else b"")
            status = await self._command(simple.argv, out)
            if simple.file and out:
                self.files.write(simple.file, self.files.read(simple.file) + bytes(out))
        except FileRefused as refused:
            return self.complain(f"sh: {simple.file}", refused)
        if not simple.file:
            (self.outputs.stderr if simple.sign else self.outputs.stdout).extend(out)
        return status

    async def _command(self, argv: tuple[str, ...], out: bytearray) -> int:
        name, arguments = argv[0], argv[1:]
        if name in self.programs:
            with self.forks.program(argv):
                status, text = self.programs[name](argv, self.stdin, self.files)
            out.extend(text.encode())
            return status
        if name in BUILTINS:
            return await COMMANDS[name].run(self, arguments, out)
        with self.forks.program(argv):
            return await COMMANDS[name].run(self, arguments, out)

    def complain(self, what: str, refused: FileRefused) -> int:
        self.outputs.stderr.extend(f"{what}: {refused.reason}\n".encode())
        return 1


Command = Callable[[Shell, tuple[str, ...], bytearray], Awaitable[int]]


async def _echo(shell: Shell, words: tuple[str, ...], out: bytearray) -> int:
    out.extend((" ".join(words) + "\n").encode())
    return 0


async def _cat(shell: Shell, names: tuple[str, ...], out: bytearray) -> int:
    if not names:
        out.extend(shell.stdin)
    status = 0
    for name in names:
        try:
            out.extend(shell.files.read(name))
        except FileRefused as refused:
            status = shell.complain(f"cat: {name}", refused)
    return status


async def _rm(shell: Shell, names: tuple[str, ...], out: bytearray) -> int:
    status = 0
    for name in names:
        try:
            shell.files.remove(name)
        except FileRefused as refused:
            status = shell.complain(f"rm: {name}", refused)
    return status


async def _ls(shell: Shell, names: tuple[str, ...], out: bytearray) -> int:
    out.extend("".join(f"{name}\n" for name in shell.files.names()).encode())
    return 0


async def _mkdir(shell: Shell, words: tuple[str, ...], out: bytearray) -> int:
    try:
        shell.files.make_directory(words[-1])
    except FileRefused as refused:
        return shell.complain(f"mkdir: {words[-1]}", refused)
    return 0


async def _ln(shell: Shell, words: tuple[str, ...], out: bytearray) -> int:
    try:
        shell.files.make_link(words[-1], words[-2])
    except FileRefused as refused:
        return shell.complain(f"ln: {words[-1]}", refused)
    return 0


async def _env(shell: Shell, words: tuple[str, ...], out: bytearray) -> int:
    out.extend("".join(f"{name}={value}\n" for name, value in shell.environment.items()).encode())
    return 0


async def _sleep(shell: Shell, words: tuple[str, ...], out: bytearray) -> int:
    await asyncio.sleep(float(words[0]))
    return 0


async def _exit(shell: Shell, words: tuple[str, ...], out: bytearray) -> int:
    raise Exit(int(words[0]) % 256 if words else 0)


async def _true(shell: Shell, words: tuple[str, ...], out: bytearray) -> int:
    return 0


async def _false(shell: Shell, words: tuple[str, ...], out: bytearray) -> int:
    return 1


@dataclass(frozen=True)
class Word:
    """A command: what it does, and the arguments that it takes, joined by blanks, as a pattern."""

    run: Command
    arguments: str = r".*"


COMMANDS: Mapping[str, Word] = {
    "echo": Word(_echo, r"(?!-).*"),
    "cat": Word(_cat, rf"({PATH}( {PATH})*)?"),
    "rm": Word(_rm, rf"{PATH}( {PATH})*"),
    "ls": Word(_ls, ""),
    "mkdir": Word(_mkdir, rf"-p {PATH}"),
    "ln": Word(_ln, rf"-s \S+ {PATH}"),
    "env": Word(_env, ""),
    "sleep": Word(_sleep, r"\d+(\.\d+)?"),
    "exit": Word(_exit, r"\d+"),
    "true": Word(_true, ""),
    "false": Word(_false, ""),
}

BUILTINS = frozenset({"echo", "exit", "true", "false"})
"""What a shell does itself: no program is started."""
