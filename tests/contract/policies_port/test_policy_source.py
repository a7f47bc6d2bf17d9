"""A policy is resolved before any episode starts, and its digest is that of what decides."""

import os
import shutil
from pathlib import Path

import pytest

from infra.policies.source import resolve_policy
from tiltyard.errors import BadPolicy
from tiltyard.policies.catalogue import shipped


def digest(target: str, folder: Path) -> str:
    return resolve_policy(target, str(folder), shipped).digest


def test_a_script_needs_no_directory() -> None:
    spec = resolve_policy("reconcile", "", shipped)
    assert (spec.target, spec.directory) == ("reconcile", "")
    assert spec.digest.startswith("sha256:")
    assert spec.digest != resolve_policy("handoff", "", shipped).digest
    assert spec == resolve_policy("reconcile", "/nowhere", shipped)


def test_a_reference_with_a_name_is_a_script_and_no_module() -> None:
    assert resolve_policy("reference:other", "", shipped).directory == ""


def test_an_object_is_found_without_running_anything(folder: Path) -> None:
    (folder / "bot.py").write_text("raise SystemExit('this was run')\nclass Bot: ...\n")
    spec = resolve_policy("bot:Bot", str(folder), shipped)
    assert (spec.target, spec.directory) == ("bot:Bot", str(folder))


def _project(folder: Path) -> None:
    package = folder / "agents" / "deep"
    package.mkdir(parents=True)
    (folder / "agents" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("from .plan import plan\n")
    (package / "plan.py").write_text("from ...agents import words\nfrom agents.words import *\nplan = 1\n")
    (folder / "agents" / "words.py").write_text("import json\nHELLO = 'hello'\n")
    (folder / "agents" / "unrelated.py").write_text("x = 1\n")
    (folder / "bot.py").write_text("if True:\n    from agents.deep import plan as act\n")


@pytest.mark.parametrize("changed", ["bot.py", "agents/deep/__init__.py", "agents/deep/plan.py", "agents/words.py"])
def test_the_digest_covers_what_the_object_imports_from_the_directory(folder: Path, changed: str) -> None:
    _project(folder)
    before = digest("bot:act", folder)
    assert before == digest("bot:act", folder)
    path = folder / changed
    path.write_text(path.read_text() + "# changed\n")
    assert digest("bot:act", folder) != before


def test_the_digest_does_not_depend_on_the_place_or_on_what_is_not_imported(folder: Path, tmp_path: Path) -> None:
    _project(folder)
    before = digest("bot:act", folder)
    (folder / "agents" / "unrelated.py").write_text("x = 2\n")
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert digest("bot:act", tmp_path / "elsewhere") == before


def test_an_object_of_an_installed_package_is_found(folder: Path) -> None:
    assert digest("tiltyard.policies.plain:do_nothing", folder)


def _program(folder: Path, name: str = "agent") -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\necho one\n")
    path.chmod(0o755)
    return path


def test_the_digest_of_a_command_covers_its_words_and_its_files(folder: Path) -> None:
    path = _program(folder)
    (folder / "prompt.txt").write_text("be kind")
    before = digest("exec:./agent --prompt prompt.txt", folder)
    assert before != digest("exec:./agent", folder)
    (folder / "prompt.txt").write_text("be quick")
    second = digest("exec:./agent --prompt prompt.txt", folder)
    path.write_text("#!/bin/sh\necho two\n")
    assert len({before, second, digest("exec:./agent --prompt prompt.txt", folder)}) == 3


def test_files_outside_the_directory_are_not_read(folder: Path) -> None:
    outside = folder.parent / "secret.txt"
    outside.write_text("one")
    before = digest("exec:cat ../secret.txt /etc/hostname", folder)
    outside.write_text("two")
    assert digest("exec:cat ../secret.txt /etc/hostname", folder) == before


BAD: dict[str, tuple[str, str]] = {
    "no-such-script": ("no shipped script", "known: "),
    "reconcil": ("no shipped script", "did you mean reconcile"),
    "handoff:other": ("no module 'handoff'", "looked for as handoff.py"),
    "bot.py:act": ("no module 'bot.py'", "looked for as bot/py.py"),
    "./bot:act": ("cannot be read", "module:object"),
    "bot:": ("cannot be read", "module:object"),
    "nobody:act": ("no module 'nobody'", "start from the directory that holds it"),
    "bot:nothing": ("defines no 'nothing'", "known: Bot, act"),
    "broken:act": ("is not valid Python at line 2", "correct it"),
    "json.nothing:act": ("no module 'json.nothing'", "json/nothing.py"),
    "exec:": ("names no command", "exec:COMMAND"),
    "exec:'oops": ("cannot be read", "quotes"),
    "exec:no-such-program --x": ("'no-such-program' is not a program", "on PATH"),
    "exec:./missing": ("'./missing' is not a program", "chmod"),
    "exec:./bot.py": ("'./bot.py' is not a program", "chmod"),
}


@pytest.mark.parametrize("target", BAD)
def test_a_bad_policy_says_what_is_wrong_and_how_to_mend_it(target: str, folder: Path) -> None:
    (folder / "bot.py").write_text("class Bot: ...\ndef act(view): ...\n")
    (folder / "broken.py").write_text("x = 1\ndef act(:\n")
    what, fix = BAD[target]
    with pytest.raises(BadPolicy) as caught:
        resolve_policy(target, str(folder), shipped)
    assert caught.value.field == "policy"
    assert what in caught.value.message
    assert fix in caught.value.fix


def test_only_what_the_module_itself_defines_is_an_object_of_it(folder: Path) -> None:
    (folder / "bot.py").write_text(
        "LIMIT = 3\ndef make():\n    global late\n    plan = late = 1\n    def inner(): ...\n"
        "if LIMIT:\n    def act(view): ...\n    other = make()\n"
    )
    for name in ("plan", "inner"):
        with pytest.raises(BadPolicy, match=r"\(known: act, make\)"):
            resolve_policy(f"bot:{name}", str(folder), shipped)
    for name in ("act", "other", "late"):
        assert resolve_policy(f"bot:{name}", str(folder), shipped).digest


@pytest.mark.parametrize("directory", ["", "/no/such/directory"])
def test_an_outside_policy_needs_its_directory(directory: str) -> None:
    with pytest.raises(BadPolicy, match=r"policy\.directory: .* is no directory"):
        resolve_policy("bot:act", directory, shipped)


def test_programs_are_looked_for_on_the_given_path(folder: Path) -> None:
    (folder / "bin").mkdir()
    _program(folder / "bin", "own-agent")
    with pytest.raises(BadPolicy):
        resolve_policy("exec:own-agent", str(folder), shipped)
    path = os.pathsep.join([str(folder / "bin"), os.defpath])
    assert resolve_policy("exec:own-agent", str(folder), shipped, path).digest
