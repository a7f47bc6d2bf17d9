"""What tests of every kind share: images of Docker's, which are built once for all of them."""

from pathlib import Path

import pytest
from filelock import FileLock

from infra.sandboxes.docker.images import Images
from infra.sandboxes.docker.recipes import BASE
from tests.contract.sandboxes.docker_engine import engine_or_skip


@pytest.fixture(scope="session")
def docker_images(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder that knows the base image and has its packages; one for all processes of this run."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if hasattr(request.config, "workerinput") else own) / "docker-images"
    folder.mkdir(exist_ok=True)
    with engine_or_skip() as engine, FileLock(folder / "lock"):
        Images(engine, folder).get(BASE)
    return folder
