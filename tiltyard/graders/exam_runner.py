"""Runs tests in a fresh sandbox and reports each one: ``python3 -I -S -B -c SOURCE`` with a plan on its input.

The plan is JSON: ``{"nonce": TEXT, "tests": [ID, …]}``. Reports go to the real standard output, one line each:
the nonce, a space, and JSON. What the code under test prints goes nowhere. It needs the standard library alone, and
is sent as text: it imports nothing of ours.

Code under test runs in this process. So nothing of this file can be changed through a module: no module names it,
its builtins are a copy, and what it needs of others it took by value before anything of the agent's was loaded.
"""

from __future__ import annotations

import ast
import builtins
import json
import sys
import unittest
import unittest.case
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from json.encoder import encode_basestring_ascii as quote
from os import O_RDWR, _exit, devnull, dup, dup2, getcwd, unlink, walk, write
from os import open as os_open
from os.path import exists
from sys import getprofile, gettrace
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

globals()["__builtins__"] = dict(vars(builtins))  # what the functions below take for the builtins

Names = dict[int, tuple[Any, str]]
"""The id of each loaded test, by the address of its object, which is kept so that no other takes the address."""

MAX_DETAIL = 200
"""Characters of what is told of an error."""

OPEN = ("showwarning", "formatwarning", "_showwarnmsg_impl", "_loggerClass", "_logRecordFactory")
"""Parts of the standard library that are there to be set, as are all whose names end in ``hook``."""

CHANGEABLE = 1 << 9
"""The flag of classes that are not built into the interpreter."""


def main() -> None:
    plan = json.load(sys.stdin)
    send = claim_output(plan["nonce"])
    texts = Texts(plan["tests"])
    modules = sys.modules
    modules["__main__"] = ModuleType("__main__")
    import_what_tests_use(texts)
    guard = Guard(modules, texts)
    suite, names = unittest.TestSuite(), Names()
    result, failed = reporting(send, names, guard)
    sys.path.insert(0, getcwd())
    sys.meta_path.insert(0, texts)
    for test in plan["tests"]:
        load(test, suite, result, names, texts)
    guard.look()
    suite.run(result)
    guard.look()
    send(f'{{"end": true, "patched": [{", ".join(map(quote, sorted(guard.found)))}]}}')
    _exit(1 if failed else 0)


def claim_output(nonce: str) -> Callable[[str], None]:
    """Take standard input and output away from the code under test; what sends a report."""
    output = dup(1)
    null = os_open(devnull, O_RDWR)
    for descriptor in (0, 1, 2):
        dup2(null, descriptor)

    def send(report: str) -> None:
        write(output, f"{nonce} {report}\n".encode())

    return send


class Texts:
    """The Python files of the tests' folders, taken into memory and off the disk; a finder and loader of modules.

    Code under test can neither read them nor put others in their place: tests are taken from ``made``, and what
    stands for one of them in ``sys.modules`` must be what was made here.
    """

    def __init__(self, tests: list[str]) -> None:
        self.files: dict[str, tuple[str, bytes]] = {}
        self.folders: dict[str, str] = {}
        self.made: dict[str, ModuleType] = {}
        self.loaded: Callable[[ModuleType], None] = lambda module: None
        for package in sorted({test.rsplit(".", 3)[0] for test in tests if test.count(".") > 2}):
            self.take(package)

    def take(self, package: str) -> None:
        top = package.replace(".", "/")
        for folder, _, names in walk(top):
            name = folder.replace("/", ".")
            self.folders[name] = folder
            for path in (f"{folder}/{one}" for one in names if one.endswith(".py")):
                with open(path, "rb") as file:
                    module = path[:-3].replace("/", ".")
                    self.files[name if module == f"{name}.__init__" else module] = path, file.read()
                with suppress(OSError):  # a folder that cannot be changed
                    unlink(path)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self.files and name not in self.folders:
            return None
        spec = ModuleSpec(name, self, origin=self.files.get(name, ("",))[0] or None)  # type: ignore[arg-type]
        spec.has_location = name in self.files
        spec.submodule_search_locations = [self.folders[name]] if name in self.folders else None
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = self.made[spec.name] = ModuleType(spec.name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        path, text = self.files.get(module.__name__, ("", b""))
        vars(module)["__builtins__"] = vars(builtins)  # those of all, not ours
        exec(compile(text, path, "exec", dont_inherit=True), vars(module))  # noqa: S102 as an import does
        self.loaded(module)


def import_what_tests_use(texts: Texts) -> None:
    """Load of the standard library what the tests import, before anything of the agent's can change it.

    The working directory is not on the path yet. What it has under the same name is what the tests mean.
    """
    for _, text in texts.files.values():
        for name in imported(text):
            top = name.partition(".")[0]
            if not exists(top) and not exists(f"{top}.py"):
                with suppress(Exception):  # it is no module, or not there: the test will say so
                    import_module(name)


def imported(text: bytes) -> Iterator[str]:
    """Names that may be of modules."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # it is no test then
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def load(test: str, suite: unittest.TestSuite, result: Any, names: Names, texts: Texts) -> None:
    """Add a test by its id; one that cannot be loaded has failed."""
    module, case, method = test.rsplit(".", 2)
    try:
        import_module(module)
        made = vars(texts.made[module])[case](method)
    except Exception as error:
        result.addError(test, (None, error, None))
    else:
        names[id(made)] = made, test
        suite.addTest(made)


def reporting(send: Callable[[str], None], names: Names, guard: Guard) -> tuple[unittest.TestResult, list[str]]:
    """A result that sends each outcome as it comes, and the tests that have not passed.

    A subtest that fails is a failure of its test.
    """
    failed: list[str] = []
    split: set[str] = set()

    def name_of(test: Any) -> str:
        return names[id(test)][1] if id(test) in names else test if type(test) is str else test.id()

    def tell(test: Any, outcome: str, error: Any = None) -> None:
        name = name_of(test)
        if outcome != "passed":
            failed.append(name)
        fields = (quote(one) for one in (name, outcome, detail_of(error)))
        send('{{"test": {}, "outcome": {}, "detail": {}}}'.format(*fields))

    class Reporting(unittest.TestResult):
        def addSuccess(self, test: Any) -> None:
            tell(test, "passed")

        def addError(self, test: Any, err: Any) -> None:
            tell(test, "error", err[1])

        def addFailure(self, test: Any, err: Any) -> None:
            tell(test, "failed", err[1])

        def addSkip(self, test: Any, reason: str) -> None:
            tell(test, "skipped")

        def addExpectedFailure(self, test: Any, err: Any) -> None:
            tell(test, "failed", err[1])

        def addUnexpectedSuccess(self, test: Any) -> None:
            tell(test, "failed")

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
            if err is not None and name_of(test) not in split:
                split.add(name_of(test))
                tell(test, "failed", err[1])

        def stopTest(self, test: Any) -> None:
            super().stopTest(test)
            guard.look_closely(self, test)

    guard.watch_class(Reporting, guard.close)
    return Reporting(), failed


class Code(NamedTuple):
    """What a function did."""

    name: str
    function: FunctionType
    code: object
    defaults: object
    named: object

    @classmethod
    def of(cls, name: str, function: FunctionType) -> Code:
        return cls(name, function, function.__code__, function.__defaults__, function.__kwdefaults__)


class Watched(NamedTuple):
    """What a module or class (``owner``) had: names, of these the parts that decide, and the code of those.

    ``live`` is what it has. A class had its bases too, and a class of its own.
    """

    label: str
    live: Mapping[str, Any]
    owner: type | None
    had: frozenset[str]
    parts: dict[str, object]
    codes: tuple[Code, ...]
    line: object
    kind: object


class Guard:
    """Finds what was changed of all that decides whether a test passes, apart from the test and the code under it.

    That is the standard library as it was loaded before the first line of the agent's, this runner, and the tests.
    ``found`` names each part that was once seen to be another. After each test the nearest parts are looked at:
    for the time of a test, honest ones change others.
    """

    def __init__(self, modules: dict[str, ModuleType], texts: Texts) -> None:
        self.found: set[str] = set()
        self.modules, self.texts, self.loaded = modules, texts, dict(modules)
        self.close: list[Watched] = []
        self.far: list[Watched] = []
        self.classes: dict[int, type] = {}
        self.tracing = gettrace(), getprofile()
        self.watch("exam", globals(), self.close)
        for name, module in self.loaded.items():
            self.watch(name, vars(module), self.close if name.partition(".")[0] == "unittest" else self.far)
        texts.loaded = self.watch_tests

    def watch(self, label: str, live: Mapping[str, Any], into: list[Watched]) -> None:
        into.append(watched(label, live, None))
        for value in tuple(live.values()):
            if isinstance(value, type):
                self.watch_class(value, into)

    def watch_class(self, owner: type, into: list[Watched]) -> None:
        if owner.__flags__ & CHANGEABLE and id(owner) not in self.classes:
            self.classes[id(owner)] = owner
            into.append(watched(f"{owner.__module__}.{owner.__qualname__}", vars(owner), owner))
            for value in tuple(vars(owner).values()):
                if isinstance(value, type):
                    self.watch_class(value, into)

    def watch_tests(self, module: ModuleType) -> None:
        """What a module of the tests defines itself; what it imports is the agent's, or watched already."""
        own = {
            name: value
            for name, value in vars(module).items()
            if isinstance(value, FunctionType | type) and value.__module__ == module.__name__
        }
        self.close.append(watched(module.__name__, vars(module), None, own))
        for value in own.values():
            if isinstance(value, type):
                self.watch_class(value, self.close)

    def look(self) -> None:
        """Look at everything."""
        for one in (*self.close, *self.far):
            self.found.update(changes(one))
        self.found.update(name for name, module in self.loaded.items() if self.modules.get(name) is not module)
        for name in self.texts.files.keys() & self.modules.keys():
            if self.modules[name] is not self.texts.made.get(name):
                self.found.add(name)
        if (gettrace(), getprofile()) != self.tracing:
            self.found.add("sys.settrace")

    def look_closely(self, result: unittest.TestResult, test: unittest.TestCase) -> None:
        """Look at the framework, the tests, and the two objects that meet in a test."""
        for part in self.close:
            self.found.update(changes(part))
        for one in (result, test):
            self.found.update(f"{type(one).__name__}.{name}" for name in vars(one) if in_the_way(one, name))


def in_the_way(owner: object, name: str) -> bool:
    """Whether an object's own attribute hides a method that reports or compares. What a test may set is none."""
    value = vars(owner)[name]
    method = callable(value) and not isinstance(value, type) and name in dir(type(owner))
    return method and name.startswith(("assert", "fail", "add", "stop", "_"))


def watched(
    label: str, live: Mapping[str, Any], owner: type | None, having: Mapping[str, Any] | None = None
) -> Watched:
    """``having`` is what to look at of ``live``: all of it, if nothing else is said."""
    having = live if having is None else having
    parts = {name: value for name, value in having.items() if decides(value) and not is_open(name)}
    codes = (Code.of(name, one) for name, value in parts.items() for one in functions(value))
    line = None if owner is None else owner.__mro__
    return Watched(label, live, owner, frozenset(live), parts, tuple(codes), line, type(owner))


def is_open(name: str) -> bool:
    return name in OPEN or name.endswith("hook")


def decides(value: object) -> bool:
    return callable(value) or isinstance(value, classmethod | staticmethod | property)


def functions(value: Any, depth: int = 4) -> Iterator[FunctionType]:
    """The functions of a value. One that wraps another has that too."""
    if isinstance(value, classmethod | staticmethod):
        yield from functions(value.__func__, depth)
    elif isinstance(value, property):
        for one in (value.fget, value.fset, value.fdel):
            yield from functions(one, depth)
    elif type(value) is FunctionType and depth:
        yield value
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # it is empty
                yield from functions(cell.cell_contents, depth - 1)


def changes(one: Watched) -> Iterator[str]:
    """Names of parts that are gone, other ones, or new in a class and in the way of what it inherits."""
    for name, value in one.parts.items():
        if one.live.get(name) is not value:
            yield f"{one.label}.{name}"
    for name, function, code, defaults, named in one.codes:
        now = function.__code__, function.__defaults__, function.__kwdefaults__
        if now[0] is not code or now[1] is not defaults or now[2] is not named:
            yield f"{one.label}.{name}"
    if one.owner is not None:
        if one.owner.__mro__ is not one.line or type(one.owner) is not one.kind:
            yield f"{one.label}.__bases__"
        for name in one.live.keys() - one.had:
            if decides(one.live[name]) and any(hasattr(base, name) for base in one.owner.__mro__[1:]):
                yield f"{one.label}.{name}"


def detail_of(error: BaseException | None) -> str:
    """An error's kind and the first line of what it says, cut."""
    if error is None:
        return ""
    kind = type(error).__name__
    try:
        return ascii(f"{kind}: {str(error).splitlines()[0]}")[1:-1][:MAX_DETAIL]
    except Exception:  # it says nothing, or its text raises: it is still an error
        return kind


if __name__ == "__main__":
    main()
