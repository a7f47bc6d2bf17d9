"""Containers that run one program of ours. Their maker removes them, or the next does where that one has died."""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import docker
from docker.errors import DockerException

from infra.local.processes import ProcessId, alive, identify
from infra.sandboxes.docker.places import FOLDER, LABEL
from tiltyard.errors import EnvironmentFailed

log = logging.getLogger(__name__)

PASSING = "build"
"""What ``LABEL`` says of them."""

MAKER = "tiltyard.maker"
"""The label with the process that made one, in JSON."""


def marks(folder: Path) -> dict[str, str]:
    """Labels of one that is made now for what is in this folder."""
    maker = identify(os.getpid())
    return {LABEL: PASSING, FOLDER: str(folder.resolve()), MAKER: maker.model_dump_json() if maker else ""}


def end_left(engine: docker.DockerClient, folder: Path) -> int:
    """Remove those of this folder, and of folders that are gone, whose makers have died; how many there were.

    Makers of other folders are not looked for: they may be in another container, with numbers of their own. Raises
    ``EnvironmentFailed`` when the engine does not answer.
    """
    try:
        listed = engine.api.containers(all=True, filters={"label": [f"{LABEL}={PASSING}", FOLDER]})
        left = [str(one["Id"]) for one in listed if _is_left(one["Labels"], folder.resolve())]
    except (DockerException, OSError, LookupError, TypeError, ValueError) as error:
        raise EnvironmentFailed(f"the engine does not say which containers there are: {error}") from error
    for one in left:
        log.warning("whoever made the container %s has died: it is ended", one[:12])
    return sum(_removed(engine, one) for one in left)


def _removed(engine: docker.DockerClient, container: str) -> bool:
    """Somebody else may have ended it meanwhile."""
    with suppress(DockerException, OSError):
        engine.api.remove_container(container, force=True, v=True)
        return True
    return False


def _is_left(labels: Mapping[str, str], folder: Path) -> bool:
    its = Path(labels[FOLDER])
    return (its == folder and not _lives(labels.get(MAKER, ""))) or not its.exists()


def _lives(maker: str) -> bool:
    return bool(maker) and alive(ProcessId.model_validate_json(maker))
