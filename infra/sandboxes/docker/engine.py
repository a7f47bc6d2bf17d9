"""The Docker engine that is talked to."""

import socket

import docker
from docker.errors import DockerException
from docker.utils import kwargs_from_env

API = "1.41"
"""The oldest version of its interface that has all that is used here. It is named so that nothing connects yet."""

CALL_S = 300
"""How long the engine may take for one call, in seconds: to load an image on a busy machine is one."""

USUAL = "unix:///var/run/docker.sock"


def connected() -> docker.DockerClient:
    """The engine of ``DOCKER_HOST``, or the machine's own. Whether it answers is found by asking it."""
    return docker.from_env(version=API, timeout=CALL_S)


def problem_of(engine: docker.DockerClient) -> str:
    """Why it does not answer; empty when it does.

    A socket that nobody listens on is looked for first: Docker's client leaves one of its own open when it fails.
    """
    place = str(kwargs_from_env().get("base_url") or USUAL).replace("http+unix://", "unix://")
    if place.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as knocking:
            try:
                knocking.connect(place.removeprefix("unix://"))
            except OSError as error:
                return f"{place}: {error.strerror or error}"
    try:
        engine.ping()
    except (DockerException, OSError) as error:
        return str(error)
    return ""
