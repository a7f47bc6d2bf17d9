"""The supervisor as containers of an image run it: compiled by that image's own Python."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import docker
from docker.errors import DockerException

from infra.sandboxes.compiled import COMPILE, NAME, PLACE, SOURCE_NAME, write_supervisor
from infra.sandboxes.docker.engine import NoAnswer
from infra.sandboxes.docker.passing import marks
from schemas.base import sha256
from tiltyard.errors import EnvironmentFailed, SandboxUnavailable

PYTHON = "/usr/bin/python3"
"""Where an image has its Python, which its sandboxes cannot do without."""


class Supervisors:
    """One folder for each image, below ``folder``: what is bound in its containers, for reading. ``write`` puts the
    source into a folder."""

    def __init__(
        self, engine: docker.DockerClient, folder: Path, write: Callable[[Path], Path] = write_supervisor
    ) -> None:
        self._engine, self._folder, self._write = engine, folder, write

    def of(self, image: str) -> Path:
        """The folder for the image of this id. Raises ``SandboxUnavailable`` for one without a Python that does."""
        made = self._folder / sha256(image.encode() + self._source.read_bytes())[7:23]
        if not (made / NAME).exists():
            coming = _made(made.with_suffix(".coming"))
            self._compile(image, self._source, coming)
            coming.replace(made)
        return made

    @cached_property
    def _source(self) -> Path:
        """Joined once: it takes a third of the time of a container's start, and comes out the same again."""
        return self._write(_made(self._folder / "source"))

    def _compile(self, image: str, source: Path, into: Path) -> None:
        paths = (f"/in/{SOURCE_NAME}", f"/out/{NAME}", str(PLACE / SOURCE_NAME))
        bound = {str(source.parent): {"bind": "/in", "mode": "ro"}, str(into): {"bind": "/out", "mode": "rw"}}
        command = [PYTHON, "-I", "-S", "-c", COMPILE, *paths]
        labels = marks(self._folder)
        try:
            self._engine.containers.run(
                image, command, network_mode="none", volumes=bound, remove=True, user="0:0", labels=labels
            )
        except NoAnswer as error:
            raise EnvironmentFailed(f"the supervisor could not be compiled: {error}") from error
        except DockerException as error:
            raise SandboxUnavailable(
                f"{PYTHON} of the image {image} does not compile the supervisor: {error}; "
                "use an image with Python 3.9 or later"
            ) from error


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    return folder
