"""The documentation: its commands work, its links lead somewhere, and nothing that exists is left out."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ops.cli.main import program
from tests.e2e.cli.cli_calls import PROGRAM, Cli
from workers.environment import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def relative(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def fences(page: Path) -> list[tuple[str, str, str]]:
    """(language, file name, text) of every fenced block."""
    return [(found[1], found[2] or "", found[3]) for found in FENCE.finditer(page.read_text())]


def commands(page: Path) -> list[str]:
    return [
        line.removeprefix("$ ")
        for language, _, text in fences(page)
        if language == "console"
        for line in text.splitlines()
        if line.startswith("$ ")
    ]


PLAYED = [page for page in PAGES if commands(page)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("home")
    yield home
    Cli(home, home)("down")


def test_there_are_pages_to_play() -> None:
    assert {"README.md", "docs/cli.md", "docs/stack.md"} <= set(map(relative, PLAYED))


@pytest.mark.parametrize("page", PLAYED, ids=relative)
def test_commands_of_a_page_work(page: Path, home: Path, tmp_path: Path) -> None:
    """Each page is played from top to bottom, in a folder with the files that it shows."""
    cli = Cli(home, tmp_path)
    for _, name, text in fences(page):
        if name:
            (tmp_path / name).write_text(text)
    for command in commands(page):
        expected = re.search(r"# exits (\d+)", command)
        if "EPISODE" in command:
            command = command.replace("EPISODE", newest(cli))
        done = subprocess.run(
            ["sh", "-c", f"PATH={PROGRAM.parent}:$PATH; {command}"],
            cwd=tmp_path,
            env=cli.environment,
            capture_output=True,
            text=True,
            timeout=150,
        )
        assert done.returncode == int(expected[1] if expected else 0), f"{command}\n{done.stdout}\n{done.stderr}"


def newest(cli: Cli) -> str:
    return str(cli("episodes", "list", "--limit", "1", "--json").object["episode_id"])


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from leaves(found, (*path, name))
    else:
        yield path, command


LEAVES = dict(leaves(program))


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_and_option_is_documented(path: tuple[str, ...]) -> None:
    text = (ROOT / "docs/cli.md").read_text()
    assert f"tiltyard {' '.join(path)}" in text
    for parameter in LEAVES[path].params:
        for option in parameter.opts if isinstance(parameter, click.Option) else ():
            assert f"`{option}" in text, f"{option} of {' '.join(path)}"


@pytest.mark.parametrize("variable", ENVIRONMENT)
def test_every_setting_is_documented(variable: str) -> None:
    assert f"| `{variable}` |" in (ROOT / "docs/stack.md").read_text()


def test_no_setting_is_invented() -> None:
    named = set(re.findall(r"TILTYARD_[A-Z0-9_]+", "".join(page.read_text() for page in PAGES)))
    assert named <= ENVIRONMENT.keys()


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_page_is_reachable_from_the_index() -> None:
    index = (ROOT / "docs/index.md").read_text()
    for page in ROOT.glob("docs/**/*.md"):
        place = page.relative_to(ROOT / "docs")
        assert place.name == "index.md" or f"({place.as_posix()})" in index or f"({place.parts[0]})" in index, place


def test_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        assert set(re.findall(r"(?:`|^)make ([a-z]+)", page.read_text(), re.MULTILINE)) <= targets, page


def test_tests_that_are_named_exist() -> None:
    for page in PAGES:
        for named in re.findall(r"`(tests/[^`]+\.py)`", page.read_text()):
            assert (ROOT / named).is_file(), f"{relative(page)}: {named}"
