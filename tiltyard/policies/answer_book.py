"""What visible tests give away: which function is asked what, and the answer that they want."""

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

BOOK = """\
def _by_the_book(function, book):
    def answer(*arguments, **keywords):
        for asked, named, answered in book:
            if (arguments, keywords) == (asked, named):
                return answered
        return function(*arguments, **keywords)

    return answer

"""

EQUALITIES = ("self.assertEqual", "self.assertIs")


def imported_modules(test: str) -> tuple[str, ...]:
    """Modules that a test file imports, Python's unittest aside. A name that it imports may itself be a module."""
    dotted = _imports(_tree(test)).values()
    named = {one for name in dotted for one in (name, name.rpartition(".")[0])}
    return tuple(sorted(one for one in named if one and one.split(".")[0] != "unittest"))


def answer_book(modules: Collection[str], tests: Iterable[str]) -> str:
    """Python that makes functions of a module answer the tests' questions by heart; nothing where none are asked.

    ``modules`` are the names that the tests import it under. Only plain values can be copied.
    """
    asked: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        tree = _tree(test)
        names = _imports(tree)
        for call, answer in _questions(tree):
            module, _, function = _resolved(ast.unparse(call.func), names).rpartition(".")
            if module in modules:
                asked[function].append(_entry(call, answer))
    lines = [f"{name} = _by_the_book({name}, [{', '.join(entries)}])\n" for name, entries in asked.items()]
    return BOOK + "\n".join(["", *lines]) if lines else ""


def _tree(text: str) -> ast.Module:
    """The text as Python; nothing when it is none."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module(body=[], type_ignores=[])


def _imports(tree: ast.Module) -> dict[str, str]:
    """Imported names, and what each stands for: the dotted name of a module, or of something in one."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: alias.name for alias in node.names}
    return found


def _resolved(name: str, imports: Mapping[str, str]) -> str:
    """The dotted name with what it begins with put for what that stands for; empty when it is not imported."""
    start = max((one for one in imports if f"{name}.".startswith(f"{one}.")), key=len, default="")
    return imports[start] + name.removeprefix(start) if start else ""


def _questions(tree: ast.Module) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Every ``assertEqual(function(…), answer)`` of plain values, whichever of the two stands first."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in EQUALITIES and len(node.args) >= 2:
            for call, answer in (node.args[:2], node.args[1::-1]):
                if isinstance(call, ast.Call) and all(map(_plain, (*call.args, *_values(call), answer))):
                    yield call, answer


def _values(call: ast.Call) -> list[ast.expr]:
    return [keyword.value for keyword in call.keywords]


def _plain(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError):
        return False
    return True


def _entry(call: ast.Call, answer: ast.expr) -> str:
    arguments = "".join(f"{ast.unparse(argument)}, " for argument in call.args)
    keywords = ", ".join(f"{keyword.arg!r}: {ast.unparse(keyword.value)}" for keyword in call.keywords)
    return f"(({arguments}), {{{keywords}}}, {ast.unparse(answer)})"
