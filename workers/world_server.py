"""The world server process: the engine behind gRPC on a unix socket."""

import logging
import os
import signal
import sys
import threading

from infra.rpc.server import serve
from workers.bootstrap.world import open_engine
from workers.settings import Settings

GRACE_S = 5
"""How long a stopping server lets its calls end."""


def main() -> None:
    """Serve the shipped worlds until SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    settings = Settings.from_environment()
    with open_engine(settings) as engine:
        server = serve(engine, settings.world_socket)
        stop.wait()
        server.stop(GRACE_S).wait()
    logging.shutdown()
    sys.stderr.flush()
    os._exit(0)  # gRPC's threads need no more time


if __name__ == "__main__":
    main()
