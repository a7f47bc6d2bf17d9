"""A sandbox's link to its container is believed only where that is one of its host: what it names is removed."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from infra.sandboxes.docker import member as members
from infra.sandboxes.docker.containers import Containers

ELSEWHERE = ["..", ".", "one", "../victim", "{home}/..", "{home}", "{home}/../victim", "{home}/a/b"]


@pytest.mark.parametrize("link", ELSEWHERE)
def test_a_link_to_somewhere_else_is_none(link: str, tmp_path: Path) -> None:
    """Nothing is ended here: only what would be is asked."""
    home, sandbox = tmp_path / "home", tmp_path / "sandbox"
    sandbox.mkdir()
    (sandbox / members.LINK).symlink_to(link.format(home=home))
    assert Containers(SimpleNamespace(), home).of(sandbox) is None  # type: ignore[arg-type]  # it is not asked


def test_a_link_to_one_of_its_own_is_that(tmp_path: Path) -> None:
    members.link(tmp_path / "sandbox", tmp_path / "home" / "one")
    found = Containers(SimpleNamespace(), tmp_path / "home").of(tmp_path / "sandbox")  # type: ignore[arg-type]
    assert found == tmp_path / "home" / "one"


@pytest.mark.parametrize("folder", ["nowhere", "nowhere/../one", "/nowhere/../one"])
def test_a_path_that_depends_on_where_one_stands_is_not_removed(folder: str) -> None:
    with pytest.raises(ValueError, match="no folder of a container"):
        members.forget(Path(folder))
