"""What names a version of the workflows' code: the digest of what a replay depends on.

A change of anything else needs no care, and changes no version.
"""

import ast
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

DIGITS = 16


def build_id(root: Path | None = None) -> str:
    """Digest, below the project's root, of the workflows' code, of the schemas that it and the activities speak,
    and of how activities are called."""
    root = root or Path(__file__).resolve().parents[1]
    digest = sha256()
    for path in sorted(_closure(root)):
        content = _interface(path) if path.parent.name == "activities" else path.read_text()
        digest.update(f"\0{path.relative_to(root)}\0{content}".encode())
    return digest.hexdigest()[:DIGITS]


def _closure(root: Path) -> set[Path]:
    """Workflows, and the modules of activities and schemas that they import, whichever way."""
    found, left = set[Path](), sorted((root / "workflows").glob("*.py"))
    while left:
        path = left.pop()
        if path not in found and path.is_file():
            found.add(path)
            left += [root / f"{name.replace('.', '/')}.py" for name in _imports(path)]
    return found


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
        yield from (name for name in names if name.partition(".")[0] in ("workflows", "activities", "schemas"))


def _interface(path: Path) -> str:
    """The activities that a module defines, as a workflow sees them: names, arguments, results."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.AsyncFunctionDef)]
    defined = [one for one in functions if "activity.defn" in map(ast.unparse, one.decorator_list)]
    return "\n".join(
        f"{one.name}({ast.unparse(one.args)}) -> {ast.unparse(one.returns) if one.returns else ''}"
        for one in defined
    )
