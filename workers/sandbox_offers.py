"""A short-lived process that tries out one driver of sandboxes: ``python -m workers.sandbox_offers DRIVER``.

It prints the offer as JSON. What is made for the trial ends with it.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from infra.sandboxes.host import no_driver
from schemas.sandbox import DriverName
from tiltyard.errors import BadInput
from workers.bootstrap.sandboxes import open_launchers
from workers.process import run
from workers.settings import Settings


def work() -> None:
    """Try out the driver that the command line names."""
    named = next((name for name in get_args(DriverName) if name in sys.argv[1:]), None)
    if named is None:
        raise BadInput("no driver is named", field="DRIVER", fix=f"use one of {', '.join(get_args(DriverName))}")
    runtime = Settings.from_environment().docker_runtime
    with TemporaryDirectory() as stage, open_launchers(Path(stage), Path(stage) / "images", runtime) as launchers:
        offer = launchers[named].offer() if named in launchers else no_driver(named, launchers)
        print(offer.model_dump_json())


if __name__ == "__main__":
    run(work)
