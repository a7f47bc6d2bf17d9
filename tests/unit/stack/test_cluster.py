"""A data folder's cluster has one name, however the folder is spelt and wherever it goes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.local.cluster import cluster_id
from infra.local.runtime import runtime_folder, usual_folder
from infra.local.stack import take_down
from tests.unit.stack.stack_yard import Yard
from tiltyard.errors import StackFailed
from workers.settings import Settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def test_a_link_to_the_data_folder_is_the_data_folder(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home)
    direct, linked = Settings.from_environment(home), Settings.from_environment(tmp_path / "link")
    assert linked == direct
    assert linked.cluster == direct.cluster


def test_settings_alone_write_nothing(tmp_path: Path) -> None:
    Settings.from_environment(tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_the_name_moves_with_the_data_folder(home: Path, tmp_path: Path) -> None:
    name = cluster_id(home)
    assert cluster_id(home.rename(tmp_path / "moved")) == name


def test_two_data_folders_have_two_names(home: Path, tmp_path: Path) -> None:
    assert cluster_id(home) != cluster_id(tmp_path)


def test_all_who_ask_at_once_get_one_name(home: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(cluster_id, [home] * 64))) == 1
    assert [file.name for file in home.iterdir()] == ["cluster"]


@pytest.mark.parametrize("kept", ["", "\n", "two words", "\xff"])
def test_a_damaged_name_is_refused(home: Path, kept: str) -> None:
    (home / "cluster").write_text(kept)
    with pytest.raises(StackFailed, match=r"cluster does not hold a name: .*remove it"):
        cluster_id(home)


def test_a_data_folder_that_was_moved_has_a_runtime_folder_of_its_own(yard: Yard, tmp_path: Path) -> None:
    yard.up()
    take_down(yard.config.paths, print)
    moved = yard.config.home.rename(tmp_path / "moved")
    assert runtime_folder(moved) == usual_folder(moved) != yard.config.runtime
