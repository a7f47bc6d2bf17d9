"""The supervisor: starts, watches, restarts, repairs, gives up, and leaves nothing running."""

import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from infra.local.processes import ProcessId, alive, end, identify
from infra.local.stack import look
from infra.local.state import read_state
from tests.eventually import eventually
from tests.unit.stack.stack_yard import QUICK, Yard
from tiltyard.errors import StackFailed


def restarted(yard: Yard, name: str, old: ProcessId | None) -> bool:
    state = look(yard.config.paths)
    return bool(state and state.phase == "ready" and yard.process(name) not in (old, None))


def test_up_then_down_leaves_no_process(yard: Yard) -> None:
    assert yard.up().phase == "ready"
    running = yard.everything()
    assert len(running) == 5
    assert all(map(alive, running))
    assert yard.down()
    assert not any(map(alive, running))
    assert look(yard.config.paths) is None
    assert not yard.config.runtime.exists()
    assert not yard.down(), "a second down finds nothing"


def test_a_second_command_uses_the_running_stack_and_says_nothing(yard: Yard) -> None:
    first = yard.up()
    heard = len(yard.said)
    assert yard.up().supervisor == first.supervisor
    assert len(yard.said) == heard


def test_commands_at_once_start_one_stack(yard: Yard) -> None:
    with ThreadPoolExecutor(4) as pool:
        states = [future.result() for future in [pool.submit(yard.up) for _ in range(4)]]
    assert len({state.supervisor for state in states}) == 1
    assert sum("starting the stack" in line for line in yard.said) == 1


@pytest.mark.parametrize("name", ["temporal", "world", "sandboxes", "worker"])
def test_a_killed_child_is_restarted(yard: Yard, name: str) -> None:
    yard.up()
    old = yard.kill(name)
    eventually(lambda: restarted(yard, name, old), f"a new {name}")
    assert next(one.restarts for one in yard.state().processes if one.name == name) == 1


@pytest.mark.parametrize("name", ["temporal", "world", "sandboxes", "worker"])
def test_a_child_that_hangs_is_killed_and_restarted(yard: Yard, name: str) -> None:
    yard.change(patience=QUICK.model_copy(update={"silence_s": 3, "ask_s": 0.1}))
    yard.up()
    old = yard.process(name)
    assert old is not None
    os.kill(old.pid, signal.SIGSTOP)
    eventually(lambda: restarted(yard, name, old), f"a new {name}")
    assert not alive(old)
    assert "no sign of life" in yard.config.paths.log("supervisor").read_text()


def test_a_ready_file_that_vanished_restarts_the_worker(yard: Yard) -> None:
    yard.up()
    old = yard.process("worker")
    yard.config.worker_ready.unlink()
    eventually(lambda: restarted(yard, "worker", old), "a new worker")
    assert yard.config.worker_ready.exists()


def test_children_do_not_outlive_a_killed_supervisor(yard: Yard) -> None:
    yard.up()
    children = yard.everything()[1:]
    yard.kill("supervisor")
    eventually(lambda: not any(map(alive, children)), "the end of the children")


def test_a_killed_supervisor_is_noticed_and_the_stack_repaired(yard: Yard) -> None:
    first = yard.up()
    yard.kill("supervisor")
    eventually(lambda: look(yard.config.paths) is None, "the supervisor's end")
    second = yard.up()
    assert second.supervisor != first.supervisor
    assert "the stack was killed: repairing it" in yard.said


def test_leftovers_are_ended_by_their_recorded_identity(yard: Yard, leftover: ProcessId) -> None:
    """Where the system does not tie children to the supervisor, its record does."""
    yard.up()
    state = yard.state()
    yard.down()
    recorded = [one.model_copy(update={"process": leftover}) for one in state.processes if one.name == "worker"]
    stale = state.model_copy(update={"processes": tuple(recorded)})
    yard.config.paths.state.write_text(stale.model_dump_json())
    yard.up()
    assert not alive(leftover)


def test_a_process_with_a_recorded_number_but_another_start_is_left_alone(yard: Yard, leftover: ProcessId) -> None:
    yard.up()
    state = yard.state()
    yard.down()
    stranger = ProcessId(pid=leftover.pid, started="another boot/1")
    stale = state.model_copy(
        update={
            "supervisor": stranger,
            "processes": tuple(one.model_copy(update={"process": stranger}) for one in state.processes),
        }
    )
    yard.config.paths.state.write_text(stale.model_dump_json())
    yard.up()
    yard.down()
    assert alive(leftover)


@pytest.fixture
def leftover(tmp_path: Path) -> object:
    pid = os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
    process = identify(pid)
    assert process is not None
    yield process
    end(process)
    os.waitpid(pid, 0)


def test_repeated_quick_deaths_are_given_up_with_the_cause(yard: Yard) -> None:
    (yard.steering / "worker.dies").touch()
    with pytest.raises(StackFailed, match=r"worker died 3 times in a row .*told to die.*`tiltyard logs worker`"):
        yard.up()
    state = read_state(yard.config.paths.state)
    assert state is not None
    assert state.phase == "failed"
    assert not any(alive(one.process) for one in state.processes)
    (yard.steering / "worker.dies").unlink()
    assert yard.up().phase == "ready", "mended, it starts"


def test_a_child_that_never_becomes_ready_is_killed_and_given_up(yard: Yard) -> None:
    (yard.steering / "worker.silent").touch()
    yard.change(patience=QUICK.model_copy(update={"start_s": 5, "quick_deaths": 1}))
    with pytest.raises(StackFailed, match="worker"):
        yard.up()


def test_a_child_that_ignores_the_request_to_end_is_killed(yard: Yard) -> None:
    (yard.steering / "worker.stubborn").touch()
    yard.up()
    running = yard.everything()
    yard.down()
    assert not any(map(alive, running))
    state = read_state(yard.config.paths.state)
    assert state is not None
    assert state.phase == "stopped", "the supervisor has done it itself"


def test_the_host_of_sandboxes_gets_the_time_that_they_need_to_end(yard: Yard) -> None:
    """More than others: whatever it could not end would stay behind."""
    (yard.steering / "sandboxes.slow").touch()
    yard.up()
    yard.down()
    assert (yard.steering / "sandboxes.ended").exists()


def test_other_code_restarts_the_stack(yard: Yard) -> None:
    first = yard.up()
    yard.change(code="sha256:two")
    second = yard.up()
    assert second.supervisor != first.supervisor
    assert not alive(first.supervisor)
    assert any("have changed" in line for line in yard.said)


def test_other_settings_restart_the_stack_and_reach_its_processes(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTYARD_TASK_QUEUE", "of another shell")
    first = yard.up()
    yard.change(settings={"TILTYARD_LOSSY": "7:0.1"})
    second = yard.up()
    assert second.supervisor != first.supervisor
    assert any("have changed" in line for line in yard.said)
    assert json.loads((yard.steering / "worker.settings").read_text()) == {
        "TILTYARD_HOME": str(yard.config.home),
        "TILTYARD_RUNTIME": str(yard.config.runtime),
        "TILTYARD_TEMPORAL_ADDRESS": second.address,
        "TILTYARD_LOSSY": "7:0.1",
    }


def test_a_taken_port_is_left_to_its_owner(yard: Yard) -> None:
    kept = int(yard.up().address.rpartition(":")[2])
    yard.down()
    with socket.create_server(("127.0.0.1", kept)):
        address = yard.up().address
    assert address != f"127.0.0.1:{kept}"
    assert (yard.steering / "worker.address").read_text() == address


def test_the_port_is_kept_when_it_is_free(yard: Yard) -> None:
    first = yard.up().address
    yard.down()
    assert yard.up().address == first


def test_a_port_lost_while_running_moves_the_worker_too(yard: Yard) -> None:
    """Another program takes the port between the server's death and its restart."""
    yard.change(patience=QUICK.model_copy(update={"backoff_s": (1.0,), "quick_s": 0}))
    address = yard.up().address
    yard.kill("temporal")
    port = int(address.rpartition(":")[2])
    eventually(lambda: _taken(yard, port), "the port taken")
    eventually(lambda: yard.state().phase == "ready" and yard.state().address != address, "another port")
    new = yard.state().address
    eventually(lambda: (yard.steering / "worker.address").read_text() == new, "a worker with the new address")


_held: list[socket.socket] = []


def _taken(yard: Yard, port: int) -> bool:
    try:
        _held.append(socket.create_server(("127.0.0.1", port)))
    except OSError:
        return False
    return True


@pytest.fixture(autouse=True)
def _release() -> object:
    yield
    while _held:
        _held.pop().close()


def test_a_vanished_socket_restarts_the_world_server(yard: Yard) -> None:
    yard.up()
    old = yard.process("world")
    yard.config.world_socket.unlink()
    eventually(lambda: restarted(yard, "world", old), "a new world server")
    assert yard.config.world_socket.exists()


def test_a_lost_state_file_is_written_again(yard: Yard) -> None:
    first = yard.up()
    yard.config.paths.state.unlink()
    eventually(lambda: yard.config.paths.state.exists(), "the state file")
    assert yard.up().supervisor == first.supervisor


def becomes_a_folder(file: Path) -> None:
    file.unlink()
    with suppress(FileExistsError):  # the supervisor was quicker
        file.mkdir()
        (file / "x").touch()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:100]),
    "binary": lambda file: file.write_bytes(b"\xff\x00"),
    "a folder": becomes_a_folder,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_file_hides_no_running_stack(yard: Yard, damage: str) -> None:
    running = yard.up()
    DAMAGES[damage](yard.config.paths.state)
    found = look(yard.config.paths)
    assert found is not None
    assert found.supervisor == running.supervisor
    DAMAGES[damage](yard.config.paths.state)
    assert yard.up().supervisor == running.supervisor
    processes = yard.everything()
    DAMAGES[damage](yard.config.paths.state)
    assert yard.down()
    assert not any(map(alive, processes))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_file_of_a_stack_that_is_down_is_in_nobodys_way(yard: Yard, damage: str) -> None:
    yard.up()
    yard.down()
    DAMAGES[damage](yard.config.paths.state)
    assert look(yard.config.paths) is None
    assert yard.up().phase == "ready"


def test_a_supervisor_that_hangs_is_noticed_and_the_stack_restarted(yard: Yard) -> None:
    first = yard.up()
    os.kill(first.supervisor.pid, signal.SIGSTOP)
    then = time.time() - 3600
    os.utime(yard.config.paths.state, (then, then))
    assert yard.up().supervisor != first.supervisor
    assert not alive(first.supervisor)
    assert any("does not answer" in line for line in yard.said)


def test_a_supervisor_that_slept_with_the_machine_is_left_alone(yard: Yard) -> None:
    first = yard.up()
    os.kill(first.supervisor.pid, signal.SIGSTOP)
    os.utime(yard.config.paths.state, (0, 0))
    os.kill(first.supervisor.pid, signal.SIGCONT)
    assert yard.up().supervisor == first.supervisor


def test_a_removed_data_folder_ends_the_stack(yard: Yard) -> None:
    yard.up()
    running = yard.everything()
    remove(yard.config.home)
    eventually(lambda: not any(map(alive, running)), "the end of every process")


def remove(folder: Path) -> None:
    """As ``rm -rf`` does, again when the supervisor has just written its state anew."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


def test_a_removed_runtime_folder_is_made_again(yard: Yard) -> None:
    first = yard.up()
    old = (yard.process("world"), yard.process("worker"))
    shutil.rmtree(yard.config.runtime)
    eventually(lambda: restarted(yard, "world", old[0]) and restarted(yard, "worker", old[1]), "new processes")
    assert yard.config.world_socket.exists()
    assert yard.config.worker_ready.exists()
    assert yard.state().supervisor == first.supervisor


def test_a_data_folder_made_anew_has_a_stack_of_its_own(yard: Yard) -> None:
    yard.up()
    old = yard.everything()
    remove(yard.config.home)
    new = yard.up()
    assert not any(map(alive, old)), "the new one has waited for the end of the old one"
    assert yard.config.world_socket.exists()
    assert yard.state() == new, "nothing has disturbed it"


def test_what_a_killed_stack_left_goes_with_the_next_command(yard: Yard) -> None:
    yard.up()
    children = yard.everything()[1:]
    yard.kill("supervisor")
    eventually(lambda: not any(map(alive, children)), "the end of the children")
    assert yard.config.world_socket.exists()
    yard.down()
    assert not yard.config.runtime.exists()


def age(yard: Yard, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(yard.config.paths.activity, (then, then))


def test_an_idle_stack_ends_and_says_why(yard: Yard) -> None:
    yard.up()
    age(yard, 1000)
    eventually(lambda: look(yard.config.paths) is None, "the end of the idle stack")
    state = read_state(yard.config.paths.state)
    assert state is not None
    assert state.message == "ended after 15 idle minutes"


@pytest.mark.parametrize("reason", ["activity", "episode", "up"])
def test_a_stack_in_use_is_not_ended_for_idleness(yard: Yard, reason: str) -> None:
    if reason == "episode":
        (yard.steering / "busy").write_text("1")
    yard.up(pinned=reason == "up")
    age(yard, 100 if reason == "activity" else 1000)
    time.sleep(10 * QUICK.keep_s)  # many looks at idleness; a wrong one would end it, none is timed
    assert yard.state().phase == "ready"
    (yard.steering / "busy").unlink(missing_ok=True)
    yard.config.paths.pinned.unlink(missing_ok=True)
    age(yard, 1000)
    eventually(lambda: look(yard.config.paths) is None, "the end once nothing keeps it")


def test_a_program_that_is_missing_is_named(yard: Yard) -> None:
    yard.change(temporal=("/nowhere/temporal",))
    with pytest.raises(StackFailed, match=r"temporal cannot be started: .*/nowhere/temporal.*tiltyard doctor"):
        yard.up()
