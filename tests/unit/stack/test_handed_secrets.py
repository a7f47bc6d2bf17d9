"""The keys to content: the worker has them, and nothing of the stack writes them down or shows them."""

import json
from pathlib import Path

import pytest

from infra.local.processes import alive
from infra.local.stack import look
from ops.cli.on_demand import stack_config
from tests.eventually import eventually
from tests.unit.stack.stack_yard import Yard
from workers.settings import Settings

SECRETS = {"TILTYARD_S3_ACCESS_KEY": "marked-access-key", "TILTYARD_S3_SECRET_KEY": "marked-secret-key"}
PLAIN = {"TILTYARD_OBJECTS": "s3://bucket/of/ours", "TILTYARD_S3_ENDPOINT": "http://127.0.0.1:1"}


@pytest.fixture
def settings(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What a command reads of its environment, which the supervisor inherits."""
    for name, value in {**SECRETS, **PLAIN}.items():
        monkeypatch.setenv(name, value)
    read = Settings.from_environment(yard.config.home)
    config = stack_config(read)
    yard.change(settings=config.settings, secrets=config.secrets)
    return read


def seen_by(yard: Yard, role: str) -> dict[str, str]:
    seen: dict[str, str] = json.loads((yard.steering / f"{role}.settings").read_text())
    return {name: value for name, value in seen.items() if name in {**SECRETS, **PLAIN}}


def test_the_worker_has_the_keys_and_no_other_process_has(yard: Yard, settings: Settings) -> None:
    yard.up()
    assert seen_by(yard, "worker") == {**SECRETS, **PLAIN}
    assert seen_by(yard, "world") == PLAIN
    assert seen_by(yard, "temporal") == {}


def test_a_restarted_worker_has_them_too(yard: Yard, settings: Settings) -> None:
    yard.up()
    (yard.steering / "worker.settings").unlink()
    killed = yard.kill("supervisor")
    eventually(lambda: not alive(killed), "the end of the supervisor")
    yard.up()
    assert seen_by(yard, "worker") == {**SECRETS, **PLAIN}


def test_no_file_of_the_stack_holds_them(yard: Yard, settings: Settings) -> None:
    yard.up()
    files = [file for file in yard.config.home.rglob("*") if file.is_file()]
    assert yard.config.paths.state in files
    assert yard.config.paths.config in files
    assert [file for file in files if holds_a_secret(file)] == []
    state = look(yard.config.paths)
    assert state is not None
    assert state.settings.keys() == {**SECRETS, **PLAIN}.keys()


def holds_a_secret(file: Path) -> bool:
    content = file.read_bytes()
    return any(value.encode() in content for value in SECRETS.values())


def test_other_keys_restart_the_stack(yard: Yard, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    first = yard.up()
    assert yard.up().supervisor == first.supervisor
    monkeypatch.setenv("TILTYARD_S3_SECRET_KEY", "another-key")
    yard.change(settings=stack_config(Settings.from_environment(yard.config.home)).settings)
    assert yard.up().supervisor != first.supervisor
    assert seen_by(yard, "worker")["TILTYARD_S3_SECRET_KEY"] == "another-key"


def test_settings_do_not_show_them(settings: Settings) -> None:
    for shown in (str(settings), repr(settings), settings.model_dump_json(), str(settings.objects)):
        assert not any(value in shown for value in SECRETS.values())
    assert settings.objects is not None
    assert settings.objects.secret_key is not None
    assert settings.objects.secret_key.get_secret_value() == SECRETS["TILTYARD_S3_SECRET_KEY"]
