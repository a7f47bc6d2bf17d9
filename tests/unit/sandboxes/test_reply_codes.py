"""Why a file or a command was refused: the codes that are told are those that there are."""

import re
from pathlib import Path
from typing import get_args

from infra.sandboxes.joined import joined
from infra.sandboxes.supervisor.files import CODES
from schemas.operation import ReplyCode

KNOWN = set(get_args(ReplyCode))
SOURCE = joined()
PAGE = Path(__file__).parents[3] / "docs" / "policies.md"


def test_the_supervisor_answers_each_of_them_and_no_other() -> None:
    written = set(re.findall(r'(?:Refused\(|"code": |CODES\.get\(number, )"(\w+)"', SOURCE))
    assert written | set(CODES.values()) == KNOWN


def test_the_page_for_policies_lists_them() -> None:
    told = PAGE.read_text().partition("\nErrors: ")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", told)) == KNOWN
