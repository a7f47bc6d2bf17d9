"""Resolves a policy before any episode starts, and takes the digest of what decides.

Nothing of the policy is run for that: its modules are found and read, not imported.
"""

import ast
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from importlib.util import resolve_name
from pathlib import Path

import tiltyard.policies
from infra.policies.target import CheckScript, Target, folder, parse, program
from schemas.base import digest_of, sha256
from schemas.episode import PolicySpec
from tiltyard.errors import BadPolicy

__all__ = ["policy_digest", "resolve_policy"]

_MOST_FILES = 1000
_MOST_BYTES = 64 * 1024 * 1024


def resolve_policy(
    target: str, directory: str, check_script: CheckScript, search_path: str = os.defpath
) -> PolicySpec:
    """The policy as an episode is given it.

    ``directory`` is the caller's; shipped scripts do without. ``check_script`` raises ``BadPolicy`` for what is no
    shipped script. Raises ``BadPolicy`` that says how to mend it: an unknown name, a module or object that is not
    there or cannot be parsed, a program that cannot be run, a directory that does not exist.
    """
    parsed = parse(target, check_script)
    if parsed.kind == "script":
        return PolicySpec(target=target, digest=policy_digest(parsed, Path(), search_path))
    start = folder(directory)
    return PolicySpec(target=target, directory=str(start), digest=policy_digest(parsed, start, search_path))


def policy_digest(target: Target, directory: Path, search_path: str = os.defpath) -> str:
    """Digest of the source that decides.

    Of a script: its name and the shipped scripts' source. Of an object: its module and, transitively, what that
    imports from ``directory`` (at most 1,000 files). Of a command: its words, and the content of those that are
    files in ``directory``, up to 64 MiB each. Data files and installed packages are not covered.
    """
    if target.kind == "script":
        shipped = Path(tiltyard.policies.__path__[0]).glob("*.py")
        return digest_of([target.words, {path.name: sha256(path.read_bytes()) for path in shipped}])
    if target.kind == "module":
        return digest_of([target.words, _module_files(target.words[0], directory)])
    program(target.words, directory, search_path)
    return digest_of([target.words, dict(_word_files(target.words, directory))])


def _word_files(words: tuple[str, ...], directory: Path) -> Iterator[tuple[str, str]]:
    for word in words:
        path = (directory / word).resolve()
        if path.is_file() and path.is_relative_to(directory) and path.stat().st_size <= _MOST_BYTES:
            yield word, sha256(path.read_bytes())


def _module_files(target: str, directory: Path) -> dict[str, str]:
    """Relative path → digest of every module that the object's module needs from the directory, and its own."""
    importlib.invalidate_caches()  # files may have been written a moment ago
    module, _, name = target.partition(":")
    start = _find(module, directory)
    if start is None:
        raise BadPolicy(
            f"there is no module {module!r} in {directory}",
            field="policy",
            fix=f"it was looked for as {module.replace('.', '/')}.py; start from the directory that holds it",
        )
    tree = _parse(start)
    if not _binds(tree, name.split(".")[0]):
        raise BadPolicy(
            f"{start} defines no {name!r}",
            field="policy",
            fix=f"known: {', '.join(_functions(tree)) or 'none'}",
        )
    files: dict[str, str] = {}
    waiting = [(module, start)]
    while waiting and len(files) < _MOST_FILES:
        importer, path = waiting.pop()
        key = path.relative_to(directory).as_posix() if path.is_relative_to(directory) else path.name
        if key not in files:
            files[key] = sha256(path.read_bytes())
            waiting += [
                (name, found)
                for name in _imports(_parse(path), importer, path.name == "__init__.py")
                if (found := _find(name, directory)) is not None and found.is_relative_to(directory)
            ]
    return files


def _find(module: str, directory: Path) -> Path | None:
    """The source file of a module of the directory, or of an installed one, without importing anything."""
    places: Sequence[str] | None = [str(directory), *sys.path]
    origin: str | None = None
    parents = module.split(".")
    for depth in range(len(parents)):
        spec = PathFinder.find_spec(".".join(parents[: depth + 1]), places)
        if spec is None:
            return None
        origin, places = spec.origin, spec.submodule_search_locations or []
    return Path(origin).resolve() if origin and origin.endswith(".py") else None


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f" at line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise BadPolicy(f"{path} is not valid Python{line}: {error}", field="policy", fix="correct it") from None


def _imports(tree: ast.Module, importer: str, is_package: bool) -> Iterator[str]:
    """Names of modules that the tree may import: of ``from a import b`` both ``a`` and ``a.b``."""
    package = importer if is_package else importer.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            try:
                base = resolve_name(relative, package) if node.level else relative
            except ImportError:
                continue
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def _top_level(node: ast.AST) -> Iterator[ast.AST]:
    """Every node of a module that is run on import, one ``if`` or ``try`` deep or not."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _OWN_SCOPE):
            yield from _top_level(child)


def _functions(tree: ast.Module) -> list[str]:
    """What can be a policy: functions and classes."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return sorted({node.name for node in _top_level(tree) if isinstance(node, kinds)})


def _names(tree: ast.Module) -> set[str]:
    """What the module's top level binds, or a function for it."""
    found = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    for node in _top_level(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return found


def _binds(tree: ast.Module, name: str) -> bool:
    names = _names(tree)
    return name in names or "*" in names or "__getattr__" in names
