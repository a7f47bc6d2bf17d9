"""The supervisor's modules as one file: all that is put into a sandbox.

They are written so that this is nothing but to put them one after the other, those first that others import. So
imports stand at the top, one of another module is ``from PACKAGE.MODULE import NAME, ...``, and no two modules give
the same name to different things.
"""

import ast
import builtins
import graphlib
import symtable
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tenacity import retry, retry_if_exception_type, stop_after_attempt

from infra.sandboxes import supervisor
from infra.sandboxes.judging import OLDEST

PACKAGE = supervisor.__name__
FOLDER = Path(supervisor.__file__).parent
PROGRAM = "__main__"
"""The module that comes last, and starts when the file is run."""

LIBRARY = {*sys.stdlib_module_names, "_sha256", "_sha2"}
"""What may be imported besides: the standard library, with what it had or will have in other versions."""

HEAD = "# Joined from its modules.\nfrom __future__ import annotations\n\n"

Import = ast.Import | ast.ImportFrom

PARSED_AGAIN = 200
"""Python 3.11 gets its own depth wrong when anybody parses while it does, another thread or what a collection of
garbage runs, such as the log of an error. It says that in a ``SystemError``, and may be asked again."""


class NotJoinable(Exception):
    """A module is written so that it would mean something else in one file. It names the place."""


class Module(NamedTuple):
    """A module in pieces: the modules of ours that it imports, what it imports of the library, each with the names
    that it has from there on, and its text below all imports."""

    name: str
    ours: list[str]
    library: dict[str, list[str]]
    body: str


def joined(folder: Path = FOLDER) -> str:
    """The source of the supervisor. Raises ``NotJoinable``, and ``SyntaxError`` for what the oldest Python that it
    runs on does not know."""
    modules = {path.stem: module_of(path) for path in sorted(folder.glob("*.py")) if path.stem != "__init__"}
    ordered = [modules[name] for name in _order(modules)]
    _refuse_doubles(ordered)
    library = sorted({line for module in ordered for line in module.library})
    bodies = [f"\n\n# --- {module.name} ---\n\n{module.body}" for module in ordered]
    return "".join((HEAD, "\n".join(library), "\n", *bodies))


def module_of(path: Path) -> Module:
    """Take a module apart. Raises ``NotJoinable`` for an import that is none of the two plain forms."""
    text = path.read_text()
    tree = _parsed(text, path)
    head = list(_head(tree))
    end = max((node.end_lineno or 0 for node in head), default=0)
    if any(node.lineno <= end for node in tree.body[len(head) :]):
        raise NotJoinable(f"{path}:{end}: code beside an import: give it a line of its own")
    module = Module(path.stem, [], {}, "".join(text.splitlines(keepends=True)[end:]).strip("\n") + "\n")
    for node in (node for node in _statements(tree.body) if isinstance(node, Import)):
        if node in head and (name := _ours(node)):
            module.ours.append(name)
        elif not _is_of_the_library(node):
            raise NotJoinable(
                f"{path}:{node.lineno}: {ast.unparse(node)}: import the standard library, or at the top of the "
                f"module `from {PACKAGE}.MODULE import NAME, ...`"
            )
        elif node in head and getattr(node, "module", "") != "__future__":
            names = [one.asname or one.name.split(".")[0] for one in node.names]
            module.library[ast.unparse(node)] = names
    return module


@retry(retry=retry_if_exception_type(SystemError), stop=stop_after_attempt(PARSED_AGAIN), reraise=True)
def _parsed(text: str, path: Path) -> ast.Module:
    return ast.parse(text, str(path), feature_version=OLDEST)


def _head(tree: ast.Module) -> Iterator[ast.stmt]:
    """What a module begins with and the joined file has not: docstring, imports, and what is for type checkers."""
    for number, node in enumerate(tree.body):
        is_docstring = number == 0 and ast.get_docstring(tree) is not None
        if not (is_docstring or isinstance(node, Import) or _is_for_types(node)):
            return
        yield node


def _is_for_types(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):
        only_imports = all(isinstance(inner, Import) for inner in node.body) and not node.orelse
        return only_imports and ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.Assign) and ast.unparse(node) == "TYPE_CHECKING = False"


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All of them, at any depth."""
    for node in body:
        yield node
        for field in ("body", "orelse", "handlers", "finalbody"):
            yield from _statements(getattr(node, field, ()))


def _ours(node: Import) -> str | None:
    """The module of ours that it imports names of, in the plain form."""
    if not isinstance(node, ast.ImportFrom) or node.level or any(one.asname for one in node.names):
        return None
    package, _, name = (node.module or "").rpartition(".")
    return name if package == PACKAGE and all(one.name != "*" for one in node.names) else None


def _is_of_the_library(node: Import) -> bool:
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").split(".")[0] in LIBRARY and node.names[0].name != "*"
    return all(one.name.split(".")[0] in LIBRARY for one in node.names)


def _order(modules: Mapping[str, Module]) -> Iterator[str]:
    """Those first that others import, and the program last."""
    needed = {name: sorted(module.ours) for name, module in modules.items()}
    needed[PROGRAM] = sorted(modules.keys() - {PROGRAM})
    if unknown := {name for names in needed.values() for name in names} - modules.keys():
        raise NotJoinable(f"there is no module {', '.join(sorted(unknown))}")
    try:
        yield from graphlib.TopologicalSorter(needed).static_order()
    except graphlib.CycleError as error:
        raise NotJoinable(f"modules import each other: {' <- '.join(error.args[1])}") from None


def _refuse_doubles(modules: list[Module]) -> None:
    """Of two things with one name the later one would be there for both modules."""
    known = dict.fromkeys(dir(builtins), "Python itself")
    for module in modules:
        for name, origin in _names(module).items():
            if known.setdefault(name, origin) != origin:
                raise NotJoinable(f"{name} is in {module.name} and in {known[name]}: rename one of them")


def _names(module: Module) -> dict[str, str]:
    """The names that a module gives, each with where it is from; the same import is the same everywhere."""
    table = symtable.symtable(module.body, module.name, "exec")
    own = {one.get_name(): module.name for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    return own | {name: f"`{line}`" for line, names in module.library.items() for name in names}
