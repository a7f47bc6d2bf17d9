"""What names a version of the workflows' code: the digest of what a replay depends on.

A change of anything else needs no care, and changes no version.
"""

import ast
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

DIGITS = 16


def build_id(root: Path | None = None, sdk: str | None = None) -> str:
    """Digest, below the project's root, of the workflows' code, of the schemas that it and the activities speak,
    of what workflows can see of activities, and of Temporal's SDK, which is the installed one unless told."""
    root = root or Path(__file__).resolve().parents[1]
    digest = sha256((sdk or version("temporalio")).encode())
    for path in sorted(_closure(root)):
        content = _seen(path) if path.parent.name == "activities" else path.read_text()
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


def _seen(path: Path) -> str:
    """What a workflow can see of a module of activities: values by their names, and how activities are called."""
    module = ast.parse(path.read_text())
    values = [ast.unparse(one) for one in module.body if isinstance(one, (ast.Assign, ast.AnnAssign))]
    functions = [one for one in ast.walk(module) if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return "\n".join([*values, *(_signature(one) for one in functions if _is_activity(one))])


def _is_activity(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whichever way it is declared: with a name of its own, or by its function's."""
    return any(ast.unparse(one).startswith("activity.defn") for one in function.decorator_list)


def _signature(activity: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    declared = " ".join(map(ast.unparse, activity.decorator_list))
    returns = ast.unparse(activity.returns) if activity.returns else ""
    return f"{declared} {activity.name}({ast.unparse(activity.args)}) -> {returns}"
