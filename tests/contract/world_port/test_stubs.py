"""The generated stubs are what the proto says."""

import shutil
from pathlib import Path

from infra.rpc.generate import GEN, main


def test_the_stubs_are_current_and_a_stale_one_is_noticed(tmp_path: Path) -> None:
    assert main(["--check"]) == 0
    copy = tmp_path / "gen"
    shutil.copytree(GEN, copy)
    (copy / "world_pb2.pyi").write_text("stale")
    (copy / "gone_pb2.py").write_text("of a proto that is gone")
    assert main(["--check"], copy) == 1
    assert main([], copy) == 0
    assert main(["--check"], copy) == 0
