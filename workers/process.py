"""How a process of the stack begins and ends."""

import logging
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from tiltyard.errors import TiltyardError

log = logging.getLogger(__name__)


def run(work: Callable[[], None]) -> NoReturn:
    """Work, then end the process: with exit code 1 and one last line that says why when it cannot work.

    It ends at once, for the threads of gRPC and of the SDK can crash an interpreter that is being taken down.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    code = 0
    try:
        work()
    except TiltyardError as error:
        log.error("%s", error)
        code = 1
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
