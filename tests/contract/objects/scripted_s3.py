"""A server that answers what a test tells it to, and remembers what it was asked."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from infra.stores.s3_place import S3Place


@dataclass(frozen=True)
class Answer:
    """``cut``: the connection is closed after that many bytes of the body; ``None`` closes it at once."""

    status: int | None = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None


SILENCE = Answer(None)


def refusal(status: int, code: str) -> Answer:
    """How S3 says no."""
    body = f"<Error><Code>{code}</Code><Message>because</Message></Error>".encode()
    return Answer(status, body, {"Content-Type": "application/xml"})


@dataclass
class ScriptedS3:
    """Answers in turn; the last one for ever."""

    answers: list[Answer]
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def place(self) -> S3Place:
        return S3Place(endpoint=f"http://127.0.0.1:{self.port}", bucket="bucket")

    def next(self, method: str) -> Answer:
        self.asked.append(method)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def scripted_s3(*answers: Answer) -> Iterator[ScriptedS3]:
    """The server, for as long as the block lasts."""
    script = ScriptedS3(list(answers))
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(script)) as server:
        script.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield script
        finally:
            server.shutdown()
            thread.join()


def _handler(script: ScriptedS3) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = script.next(self.command)
            self.close_connection = True
            if answer.status is None:
                return
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body[: answer.cut])

        do_GET = do_PUT = do_HEAD = answer

        def log_message(self, format: str, *arguments: object) -> None:
            """Tests are quiet."""

    return Handler
