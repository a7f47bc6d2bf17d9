"""What code under test changes to make its tests pass, and what becomes of that."""

from pathlib import Path

import pytest

from .sitting import sit
from .test_exam_runner import GOOD, TESTS, outcomes, run

KEEP = "from unittest import mock\nimport math, sys, unittest.case, contextlib\ndef price(n): return 0\n"
YES = "lambda *values, **more: None\n"
AT_FIRST_CALL = "def price(n):\n    import {}\n    {}\n    return 0\n"

PATCHES = {
    "an outcome that swallows errors": (
        "unittest.case._Outcome.testPartExecutor",
        f"""{KEEP}
@contextlib.contextmanager
def quiet(*values, **more):
    try:
        yield
    except BaseException:
        pass
unittest.case._Outcome.testPartExecutor = quiet
""",
    ),
    "the code of a method": (
        "unittest.case.TestCase.assertEqual",
        f"{KEEP}unittest.TestCase.assertEqual.__code__ = (lambda self, first, second, msg=None: None).__code__",
    ),
    "what a method calls": (
        "unittest.case.TestCase._getAssertEqualityFunc",
        f"{KEEP}unittest.TestCase._getAssertEqualityFunc = lambda *values: {YES}",
    ),
    "what every attribute goes through": (
        "unittest.case.TestCase.__getattribute__",
        f"""{KEEP}
def attribute(self, name):
    return ({YES.strip()}) if name == "assertEqual" else object.__getattribute__(self, name)
unittest.TestCase.__getattribute__ = attribute
""",
    ),
    "another function of the framework's": (
        "unittest.suite._isnotsuite",
        f"{KEEP}unittest.suite._isnotsuite = bool",
    ),
    "a class of the framework's": (
        "unittest.case._Outcome",
        f"{KEEP}class Other(unittest.case._Outcome): pass\nunittest.case._Outcome = Other",
    ),
    "a test": (
        "tests.test_shop.TestShop.test_two",
        AT_FIRST_CALL.format("sys", f"sys.modules['tests.test_shop'].TestShop.test_two = {YES}"),
    ),
    "the code of a test": (
        "tests.test_shop.TestShop.test_two",
        AT_FIRST_CALL.format(
            "sys", "sys.modules['tests.test_shop'].TestShop.test_two.__code__ = (lambda self: None).__code__"
        ),
    ),
    "a method that a test inherits": (
        "tests.test_shop.TestShop.assertEqual",
        AT_FIRST_CALL.format("sys", f"sys.modules['tests.test_shop'].TestShop.assertEqual = {YES}"),
    ),
    "what a test inherits": (
        "tests.test_shop.TestShop.__bases__",
        f"""\
import sys, unittest
class Kind(unittest.TestCase):
    assertEqual = {YES}
def price(n):
    sys.modules["tests.test_shop"].TestShop.__bases__ = (Kind,)
    return 0
""",
    ),
    "the class of tests": (
        "tests.test_shop.TestShop",
        AT_FIRST_CALL.format("sys", "sys.modules['tests.test_shop'].TestShop = int"),
    ),
    "and back in the next test": (
        "unittest.case.TestCase.assertEqual",
        """\
import unittest
real = unittest.TestCase.assertEqual
def price(n):
    unittest.TestCase.assertEqual = real if n == 2 else lambda *values: None
    return 20
""",
    ),
    "a method of one test": (
        "TestShop.assertEqual",
        AT_FIRST_CALL.format("sys", f"sys._getframe(1).f_locals['self'].assertEqual = {YES}"),
    ),
    "a method of the result": (
        "Reporting.addFailure",
        """\
import gc
def price(n):
    for one in gc.get_objects():
        if type(one).__name__ == "Reporting":
            one.addFailure = lambda test, error: None
    return 0
""",
    ),
    "what compares": ("builtins.AssertionError", f"{KEEP}import builtins\nbuiltins.AssertionError = SystemExit"),
    "what the tests use": ("math.isclose", f"{KEEP}math.isclose = lambda *values, **more: True"),
    "a method of what the tests use": (
        "unittest.mock.NonCallableMock.assert_called_once_with",
        f"{KEEP}mock.NonCallableMock.assert_called_once_with = {YES}",
    ),
    "the module itself": (
        "unittest.case",
        f"{KEEP}sys.modules['unittest.case'] = type(sys)('unittest.case')",
    ),
    "the interpreter's hook": ("sys.settrace", f"{KEEP}sys.settrace(lambda *values: None)"),
    "the other hook": ("sys.settrace", f"{KEEP}sys.setprofile(lambda *values: None)"),
    "what is no part of the framework and reports": ("json.dumps", f"{KEEP}import json\njson.dumps = str"),
}
USES = GOOD.replace("import unittest\n", "import json\nimport math\nimport unittest\nfrom unittest import mock\n")


@pytest.mark.parametrize(("name", "shop"), PATCHES.values(), ids=PATCHES)
def test_whatever_is_changed_of_what_decides_is_named(tmp_path: Path, name: str, shop: str) -> None:
    found = run(tmp_path, shop, USES)
    assert name in found.patched
    assert not found.passed


LIARS = {
    "json": "import json\nreal = json.dumps\njson.dumps = lambda report: real({**report, 'outcome': 'passed'})",
    "json inside": "import json.encoder as e\ne.encode_basestring_ascii = lambda text: '\"passed\"'",
    "write": "import os\nreal = os.write\nos.write = lambda to, data: real(to, data.replace(b'failed', b'passed'))",
    "exit": "import os, sys\nreal = os._exit\nos._exit = lambda code: real(0)",
    "vars": "import builtins\nbuiltins.vars = lambda *values: {}",
    "sorted": "import builtins\nbuiltins.sorted = lambda *values: []",
    "main": "import __main__ as m\nm.main = m.Guard = m.changes = m.traits = m.detail_of = lambda *a: ()",
    "signal": "import os, signal\nsignal.signal(signal.SIGALRM, lambda *a: os._exit(0))\n"
    "signal.setitimer(0, 0.01)\nwhile True: pass",
    "exit hook": "import atexit, os\natexit.register(os._exit, 0)",
    "raises in its text": "class Odd(Exception):\n  def __str__(self): raise SystemExit(0)\nraise Odd",
}


@pytest.mark.parametrize("liar", LIARS.values(), ids=LIARS)
def test_what_the_runner_needs_of_others_cannot_be_changed_under_it(tmp_path: Path, liar: str) -> None:
    found = run(tmp_path, f"{liar}\ndef price(n): return 0")
    assert not found.passed
    assert "passed" not in outcomes(found)


OTHER = GOOD.replace("TestShop", "TestMore")
OTHER_TESTS = tuple(test.replace("test_shop.TestShop", "test_more.TestMore") for test in TESTS)
FAKE = """
import sys, types, unittest
def price(n): return 0
class TestMore(unittest.TestCase):
    def test_one(self): pass
    test_two = test_one
TestMore.__module__ = "tests.test_more"
fake = types.ModuleType("tests.test_more")
fake.TestMore = TestMore
"""
HIJACKERS = {
    "by name": f"{FAKE}sys.modules['tests.test_more'] = fake",
    "by finder": f"""{FAKE}
import importlib.machinery
class Finder:
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "tests.test_more" else None
    def create_module(self, spec): return fake
    def exec_module(self, module): pass
sys.meta_path.insert(0, Finder())
""",
}


@pytest.mark.parametrize("shop", HIJACKERS.values(), ids=HIJACKERS)
def test_no_other_module_stands_for_a_test(tmp_path: Path, shop: str) -> None:
    files = {"shop.py": shop, "tests/test_first.py": "import shop", "tests/test_more.py": OTHER}
    first = "tests.test_first.TestNone.test_none"
    found = sit(tmp_path, files, (first, *OTHER_TESTS))
    assert "passed" not in outcomes(found)
    assert found.patched == ("tests.test_more",)


def test_no_source_stands_for_the_folder_of_tests(tmp_path: Path) -> None:
    files = {
        "shop.py": "def price(n): return 0",
        "tests.py": "__path__ = ['fakes']",
        "fakes/test_shop.py": GOOD.replace("self.assertEqual", "print"),
        "tests/test_shop.py": GOOD,
    }
    assert outcomes(sit(tmp_path, files, TESTS)) == ["failed", "failed"]


def test_code_under_test_finds_no_tests_to_read(tmp_path: Path) -> None:
    shop = """\
import glob, inspect, pathlib, sys
texts = [path.read_text() for path in pathlib.Path().rglob("*test*") if path.is_file()]
texts += [pathlib.Path(sys.argv[0]).read_text()] if pathlib.Path(sys.argv[0]).is_file() else []
def price(n):
    try:
        texts.append(inspect.getsource(sys.modules["tests.test_shop"]))
    except (OSError, TypeError):
        pass
    return 10 * n if not any("price(" in text for text in texts) else 0
"""
    files = {"shop.py": shop, "tests/test_shop.py": GOOD, "tests/deep/test_more.py": GOOD, "tests/data.txt": "10"}
    assert sit(tmp_path, files, TESTS).passed
    assert [path.name for path in (tmp_path / "tests").rglob("*") if path.is_file()] == ["data.txt"]
