"""Images of a registry, as the engine takes them: whether one that cannot be had may be had later."""

import re
from typing import Any

import docker
from docker.errors import APIError, DockerException
from docker.utils import parse_repository_tag
from urllib3.exceptions import HTTPError

from schemas.sandbox import IMAGE_REFERENCE
from tiltyard.errors import EnvironmentFailed, SandboxUnavailable

NOT_FOR_US = re.compile(
    r"manifest unknown|not found: |no matching manifest|unauthorized|denied|authentication required", re.IGNORECASE
)
"""What registries say of an image that they do not have or do not give us: at times as an error of the engine's."""

FINAL = frozenset({400, 401, 403, 404})
"""What the engine answers where asking again is of no use."""

NAME_ANOTHER = "name another image in the task's sandbox, or have this one pushed, or log in with `docker login`"
ASK_LATER = "see whether its registry answers this machine, and `docker info`, then try again"


def pull(engine: docker.DockerClient, reference: str) -> dict[str, Any]:
    """What the engine knows of the image, which it has then.

    Raises ``SandboxUnavailable`` where it is not there or not for us, ``EnvironmentFailed`` for what may pass.
    """
    if not IMAGE_REFERENCE.fullmatch(reference):  # an engine would take some for another image than is meant
        raise _failure(reference, "that is no image's reference", final=True)
    repository, tag = parse_repository_tag(reference)
    try:
        for line in engine.api.pull(repository, tag=tag or "latest", stream=True, decode=True):
            if told := line.get("error"):  # it had begun, so its status was 200
                raise _failure(reference, str(told), final=False)
        joined = "@" if tag and ":" in tag else ":"
        return engine.images.get(f"{repository}{joined}{tag or 'latest'}").attrs
    except APIError as error:
        told = str(error.explanation or error)
        raise _failure(reference, told, final=error.status_code in FINAL) from error
    except (DockerException, HTTPError, OSError, ValueError) as error:  # what comes in the course of it is raw
        raise _failure(reference, str(error), final=False) from error


def _failure(reference: str, told: str, *, final: bool) -> EnvironmentFailed:
    problem = f"the image {reference} cannot be had: {told}"
    if final or NOT_FOR_US.search(told):
        return SandboxUnavailable(problem, fix=NAME_ANOTHER)
    return EnvironmentFailed(problem, fix=ASK_LATER)
