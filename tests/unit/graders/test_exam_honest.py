"""What honest tests do to the framework and to what they run, and pass."""

from pathlib import Path

from .sitting import sit
from .test_exam_runner import outcomes

HONEST = """\
from __future__ import annotations
import abc, contextlib, dataclasses, io, json, logging, os, pathlib, sys, time, unittest, warnings
from unittest import mock
from unittest.mock import patch

import shop
from . import prices
from .prices import known
from tests.prices import Base

set_up = []


def setUpModule() -> None:
    set_up.append("module")
    unittest.addModuleCleanup(set_up.clear)


@dataclasses.dataclass
class Row:
    n: int


class Mixin(abc.ABC):
    @abc.abstractmethod
    def made(self): ...


class TestShop(Base, Mixin):
    maxDiff = None
    helper = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows, cls.helper = [Row(1)], staticmethod(len)
        cls.enterClassContext(patch("time.sleep"))
        cls.run_at = cls.count = lambda self: 1

    def made(self):
        return 1

    def setUp(self):
        self.maxDiff, self.run, self.debug = None, mock.Mock(), print
        self.addTypeEqualityFunc(Row, lambda first, second, msg: None)
        patcher = patch.object(shop, "rate", 3)
        patcher.start()
        self.addCleanup(patcher.stop)

    def test_one(self):
        self.assertEqual(set_up, ["module"])
        for n in range(3):
            with self.subTest(n=n):
                self.assertEqual(shop.price(n), 3 * n)
        with patch("shop.price", return_value=7) as price, patch("builtins.open"), patch("json.dumps"):
            self.assertEqual(shop.total([1]), 7)
        price.assert_called_once_with(1)
        with mock.patch.dict(sys.modules, {"json": None}), mock.patch.dict(os.environ, {"A": "b"}):
            pass
        with patch(f"{__name__}.known", return_value=1), patch.object(TestShop, "made"):
            self.assertEqual(known(5), 1)

    @patch("sys.stdout", new_callable=io.StringIO)
    def test_two(self, out):
        print("x")
        self.assertEqual(out.getvalue(), "x\\n")
        with contextlib.redirect_stdout(io.StringIO()) as told:
            shop.tell()
        self.assertEqual(told.getvalue(), "told\\n")
        with self.assertLogs("shop") as logs, self.assertWarns(UserWarning):
            logging.getLogger("shop").info("x")
            warnings.warn("x")
        logging.captureWarnings(True)
        with self.assertRaisesRegex(ValueError, "no"):
            shop.fail()
        time.sleep(3600)
        self.assertEqual(pathlib.Path(__file__).with_name("data.json").read_text(), "[1]")
        self.assertEqual(TestShop.rows, self.rows)

    @unittest.skipUnless(sys.platform, "never")
    def test_three(self):
        self.assertEqual(known(2), 20)
        self.assertIs(sys.modules[__name__].prices, prices)


class TestLater(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.three = await shop.later()

    async def test_four(self):
        self.assertEqual(self.three, 3)

    @unittest.skip("no")
    def test_skipped(self): ...

    @unittest.expectedFailure
    def test_expected(self):
        self.assertEqual(1, 2)
"""
HONEST_SHOP = """\
import builtins, sys
builtins._ = str
sys.excepthook = lambda *values: None
rate = 10
def price(n): return rate * n
def total(many): return sum(map(price, many))
def tell(): print("told")
def fail(): raise ValueError("no")
async def later(): return 3
"""
PRICES = """\
import unittest
class Base(unittest.TestCase):
    calls = 0
    def setUp(self): type(self).calls += 1
def known(n): return 10 * n
"""


def test_an_honest_suite_passes_whatever_it_uses(tmp_path: Path) -> None:
    names = [f"TestShop.test_{name}" for name in ("one", "two", "three")] + ["TestLater.test_four"]
    tests = tuple(f"tests.test_shop.{name}" for name in names)
    files = {
        "shop.py": HONEST_SHOP,
        "tests/test_shop.py": HONEST,
        "tests/prices.py": PRICES,
        "tests/data.json": "[1]",
    }
    for init in ({}, {"tests/__init__.py": "import shop"}):
        found = sit(tmp_path / str(len(init)), {**files, **init}, tests)
        assert found.passed, (found.reports, found.patched)
    left = tuple(f"tests.test_shop.TestLater.{name}" for name in ("test_skipped", "test_expected"))
    found = sit(tmp_path / "others", files, left)
    assert (outcomes(found), found.patched, found.finished) == (["skipped", "failed"], (), True)
