"""The world server process: the engine behind gRPC on a unix socket."""

import signal
import threading

from infra.rpc.answers import answers
from infra.rpc.server import serve
from workers.beat import BEAT_S, beat
from workers.bootstrap.world import open_engine
from workers.process import run
from workers.settings import Settings

GRACE_S = 5
"""How long a stopping server lets its calls end."""

ANSWER_S = 25
"""How long it waits for its own answer, which is given after those to all earlier calls."""


def work() -> None:
    """Serve the shipped worlds until SIGTERM or SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    settings = Settings.from_environment()
    with open_engine(settings) as engine:
        server = serve(engine, settings.world_socket)
        while not stop.wait(BEAT_S):
            if answers(settings.world_socket, ANSWER_S):
                beat(settings.world_socket)
        server.stop(GRACE_S).wait()


if __name__ == "__main__":
    run(work)
