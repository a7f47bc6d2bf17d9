"""The Docker engine that is talked to."""

import docker

API = "1.41"
"""The oldest version of its interface that has all that is used here. It is named so that nothing connects yet."""

CALL_S = 300
"""How long the engine may take for one call, in seconds: to load an image on a busy machine is one."""


def connected() -> docker.DockerClient:
    """The engine of ``DOCKER_HOST``, or the machine's own. Whether it answers is found by asking it."""
    return docker.from_env(version=API, timeout=CALL_S)
