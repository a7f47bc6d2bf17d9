"""What is handed to the supervisor: read back as it was written, and no place where Ctrl-C becomes a crash."""

from pathlib import Path, PosixPath

import pytest

from infra.local.config import StackConfig

CONFIG = StackConfig(
    home=Path("/data/with ü"),
    runtime=Path("/run/tiltyard"),
    code="sha256:1",
    temporal=("temporal",),
    world=("world",),
    sandboxes=("sandboxes",),
    worker=("worker",),
    world_socket=Path("/run/tiltyard/world.sock"),
    sandboxes_socket=Path("/run/tiltyard/sandboxes.sock"),
    settings={"TILTYARD_SLICE_S": "1"},
)


class Interrupted(PosixPath):
    """Ctrl-C arrives while it is turned into text."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


def test_it_is_read_back_as_it_was_written() -> None:
    read = StackConfig.model_validate_json(CONFIG.text)
    assert read == CONFIG
    assert read.digest == CONFIG.digest, "or every command would restart the stack"
    assert CONFIG.model_copy(update={"code": "sha256:2"}).digest != CONFIG.digest


@pytest.mark.parametrize("how", ["text", "digest"])
def test_ctrl_c_in_the_middle_is_ctrl_c(how: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        getattr(CONFIG.model_copy(update={"home": Interrupted("/data")}), how)
