"""An image that cannot be had: what may pass is tried again, what will not is final. Each is told with a remedy."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from infra.sandboxes.docker.engine import connected
from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.launcher import DockerLauncher
from tiltyard.errors import EnvironmentFailed, SandboxUnavailable
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.sandbox_bench import SandboxBench


class Said(NamedTuple):
    """What an engine answers to a pull: at once, or in the course of it."""

    status: int
    text: str
    halfway: bool = False


FINAL = [
    Said(404, "pull access denied for a/b, repository does not exist or may require 'docker login'"),
    Said(404, "manifest for a/b:1 not found: manifest unknown"),
    Said(403, "denied: requested access to the resource is denied"),
    Said(401, "unauthorized: authentication required"),
    Said(500, "unauthorized: authentication required"),
    Said(400, "invalid reference format"),
    Said(200, "no matching manifest for linux/amd64 in the manifest list entries", halfway=True),
]
PASSING = [
    Said(500, 'Get "https://registry.example.com/v2/": dial tcp: lookup registry.example.com: no such host'),
    Said(500, 'Get "http://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused'),
    Said(429, "toomanyrequests: You have reached your pull rate limit"),
    Said(503, "the engine is not ready"),
    Said(200, "unexpected EOF", halfway=True),
    Said(200, "write /var/lib/docker/tmp/one: no space left on device", halfway=True),
]


@pytest.fixture
def said(request: pytest.FixtureRequest) -> Said:
    found = request.param
    assert isinstance(found, Said)
    return found


@pytest.fixture
def launcher(said: Said, tmp_path: Path) -> Iterator[DockerLauncher]:
    """Of an engine that says it, on loopback."""

    class Engine(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            about = {"status": "Pulling"}, {"errorDetail": {"message": said.text}, "error": said.text}
            self._say(said.status, about if said.halfway else [{"message": said.text}])

        def do_GET(self) -> None:
            self._say(404, [{"message": "No such image"}])

        def log_message(self, *_: Any) -> None:
            pass

        def _say(self, status: int, lines: Any) -> None:
            """In chunks, as an engine tells how far it is."""
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for text in (*map(json.dumps, lines), ""):
                self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            with closing(connected(f"tcp://127.0.0.1:{server.server_port}")) as engine:
                yield DockerLauncher(engine, Images(engine, tmp_path), tmp_path)
        finally:
            server.shutdown()
            thread.join()


async def failure_of(launcher: DockerLauncher, folder: Path) -> EnvironmentFailed:
    order = SandboxBench(MemorySandboxes(), "docker").order(image="a/b:1")
    with pytest.raises(EnvironmentFailed, match="the image a/b:1 cannot be had") as raised:
        await launcher.launch(order, folder / "box")
    return raised.value


@pytest.mark.parametrize("said", FINAL, indirect=True, ids=lambda said: said.text[:20])
async def test_what_is_not_there_or_not_for_us_is_final(
    launcher: DockerLauncher, said: Said, tmp_path: Path
) -> None:
    failure = await failure_of(launcher, tmp_path)
    assert type(failure) is SandboxUnavailable
    assert said.text in str(failure)
    assert "name another image" in str(failure)


@pytest.mark.parametrize("said", PASSING, indirect=True, ids=lambda said: said.text[:20])
async def test_what_may_pass_is_tried_again(launcher: DockerLauncher, said: Said, tmp_path: Path) -> None:
    failure = await failure_of(launcher, tmp_path)
    assert type(failure) is EnvironmentFailed
    assert said.text in str(failure)
    assert "whether its registry answers" in str(failure)
    assert "another image" not in str(failure)
