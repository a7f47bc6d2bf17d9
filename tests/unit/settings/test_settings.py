"""Whatever the environment holds, the settings are usable or the message names the variable."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import make_url

from tiltyard.errors import BadInput
from workers.environment import ENVIRONMENT, data_folder
from workers.settings import Settings

SECONDS = sorted(name for name in ENVIRONMENT if name.endswith("_S"))


@pytest.mark.parametrize("variable", SECONDS)
@pytest.mark.parametrize("value", ["1e300", "inf", "nan", "-1", "0", "1e-9", "five", "0x10", "9" * 500, "86401"])
def test_a_number_out_of_range_names_the_variable(variable: str, value: str) -> None:
    with pytest.raises(BadInput, match=rf"^{variable}: .* is not a number of seconds from [\d.]+ to \d+") as raised:
        Settings.from_environment(environment={variable: value})
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize("variable", SECONDS)
def test_the_ranges_are_those_that_are_documented(variable: str) -> None:
    least, most = ENVIRONMENT[variable].rpartition("; ")[2].rstrip(")").split(" to ")
    for value in (least, most):
        Settings.from_environment(environment={variable: value})
    with pytest.raises(BadInput, match=f"from {least} to {most}"):
        Settings.from_environment(environment={variable: "-1"})


@pytest.mark.parametrize("given_slots", ["0", "-1", "513", "1.5", "four", "9" * 500, "²"])
def test_a_number_of_sandboxes_out_of_range_names_the_variable(given_slots: str) -> None:
    with pytest.raises(BadInput, match=r"^TILTYARD_SANDBOXES: .* is not a whole number from 1 to 512"):
        Settings.from_environment(environment={"TILTYARD_SANDBOXES": given_slots})


@pytest.mark.parametrize("given_slots", [1, 512])
def test_the_range_of_sandboxes_is_the_documented_one(given_slots: int) -> None:
    assert "1 to 512" in ENVIRONMENT["TILTYARD_SANDBOXES"]
    assert Settings.from_environment(environment={"TILTYARD_SANDBOXES": str(given_slots)}).slots == given_slots


@pytest.mark.parametrize("waiting", ["-1", "513", "two"])
def test_a_number_of_waiting_containers_out_of_range_names_the_variable(waiting: str) -> None:
    with pytest.raises(BadInput, match=r"^TILTYARD_WARM_SANDBOXES: .* is not a whole number from 0 to 512"):
        Settings.from_environment(environment={"TILTYARD_WARM_SANDBOXES": waiting})


@pytest.mark.parametrize("waiting", [0, 512])
def test_the_range_of_waiting_containers_is_the_documented_one(waiting: int) -> None:
    assert "0 to 512" in ENVIRONMENT["TILTYARD_WARM_SANDBOXES"]
    assert Settings.from_environment(environment={"TILTYARD_WARM_SANDBOXES": str(waiting)}).warm == waiting


@pytest.mark.parametrize("name", ["sandboxes", "Zwei", "a b", "-a", "a/b", "a" * 41])
def test_what_is_no_name_of_a_host_names_the_variable(name: str) -> None:
    with pytest.raises(BadInput, match=r"^TILTYARD_HOST: .* is no name of a host"):
        Settings.from_environment(environment={"TILTYARD_HOST": name})


@pytest.mark.parametrize("runtime", ["a b", "../x", "--privileged", "/usr/bin/runc", "x" * 65])
def test_what_is_no_name_of_a_runtime_names_the_variable(runtime: str) -> None:
    with pytest.raises(BadInput, match=r"^TILTYARD_DOCKER_RUNTIME: .* is no name of a runtime"):
        Settings.from_environment(environment={"TILTYARD_DOCKER_RUNTIME": runtime})


@pytest.mark.parametrize("runtime", ["runc", "runsc-kvm", "io.containerd.runc.v2"])
def test_a_name_of_a_runtime_is_taken(runtime: str) -> None:
    assert Settings.from_environment(environment={"TILTYARD_DOCKER_RUNTIME": runtime}).docker_runtime == runtime


def test_another_engine_is_another_setting_of_the_stack() -> None:
    """One that runs with other settings is told from this one by what is given."""
    place = "unix:///run/other.sock"
    assert Settings.from_environment(environment={"DOCKER_HOST": place}).given == {"DOCKER_HOST": place}
    assert "PATH" not in Settings.from_environment(environment={"PATH": "/bin"}).given


def test_a_host_with_a_name_shares_nothing_of_its_own(tmp_path: Path) -> None:
    own, second = (
        Settings.from_environment(tmp_path, environment={"TILTYARD_HOST": name} if name else {})
        for name in ("", "second")
    )
    assert second.host == "second"
    assert own.host == own.host != second.host
    for place in ("sandboxes", "sandbox_stage", "sandboxes_socket", "worker_ready"):
        assert getattr(own, place) != getattr(second, place)
    assert (own.world_socket, own.records_url, own.images) == (
        second.world_socket,
        second.records_url,
        second.images,
    )


@given(st.dictionaries(st.sampled_from(sorted(ENVIRONMENT)), st.text(max_size=20)))
@example({"TILTYARD_LOSSY": "9" * 5000 + ":0.1"})
@example({"TILTYARD_LOSSY": "7:nan"})
@example({"TILTYARD_HOME": "~no-such-user-here"})
@example({"TILTYARD_HOME": "x" * 300})
@example({"TILTYARD_HOME": "x/" * 3000})
def test_any_environment_is_settings_or_bad_input(environment: dict[str, str]) -> None:
    usable = {name: value.replace("\0", "") for name, value in environment.items()}  # no environment holds a NUL
    named = ""
    try:
        Settings.from_environment(environment=usable)
    except BadInput as error:
        named = error.field
    assert named in ("", *ENVIRONMENT)


def test_a_circle_of_links_is_no_data_folder(tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(BadInput, match="--home: "):
        data_folder(circle)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=20))
@example("a?b")
@example("a%41")
@example("a#b &c=d ü")
def test_the_databases_lie_in_the_data_folder_whatever_its_name(name: str) -> None:
    settings = Settings(home=Path("/data") / name, runtime=Path("/run"))
    found = [make_url(url).database for url in (settings.records_url, settings.worlds_url)]
    assert found == [str(settings.home / "records.db"), str(settings.home / "worlds.db")]
