"""What a sandbox told, as ``episodes show --processes`` prints it."""

from typing import Any

from ops.cli.processes import as_json, lines_of, tree
from schemas.evidence import SandboxEvidence
from schemas.sandbox_facts import SandboxFacts
from schemas.told import CommandRecord, ConnectionAttempt, MarkedRead, OutputRecord, ProcessRecord

OUT = OutputRecord(digest="sha256:" + "0" * 64, total_bytes=1)


def program(
    pid: int, parent: int, *argv: str, at: tuple[float, float | None] = (0, 1), **more: Any
) -> ProcessRecord:
    return ProcessRecord(
        **{
            "pid": pid,
            "parent": parent,
            "argv": argv,
            "op_id": "e/1/0/0",
            "started_s": at[0],
            "ended_s": at[1],
            **more,
        }
    )


def command(op_id: str = "e/1/0/0", **more: Any) -> CommandRecord:
    plain = {"do": "exec", "argv": ("sh",), "request_digest": "d", "started": True, "ended": True, "exit_code": 0}
    return CommandRecord(**{"op_id": op_id, **plain, **more})


def shown(*told: SandboxFacts) -> list[str]:
    return list(lines_of(SandboxEvidence(facts=told[-1], earlier=told[:-1])))


def facts(**more: Any) -> SandboxFacts:
    return SandboxFacts(**{"driver": "bubblewrap", "incarnation": 1, "watched": "every_exec", **more})


def test_programs_stand_below_those_that_started_them() -> None:
    programs = (
        program(2, 1, "/bin/sh", "-c", "a & b 'c'; d", at=(0, 2)),
        program(3, 2, "a", at=(0.5, 0.75)),
        program(5, 3, "deep", at=(0.6, None), left=True),
        program(4, 2, "nohup", "b", at=(1, 1.25)),
        program(4, 2, "b", at=(1.25, 1.5)),
    )
    assert shown(facts(commands=(command(stdout=OUT),), processes=programs)) == [
        "turn 0, call 0; exit code 0; stdout 1 byte",
        "    0.00 s    2.00 s      2  /bin/sh -c \"a & b 'c'; d\"",
        "    0.50 s    0.25 s      3  ├─ a",
        "    0.60 s         ?      5  │  └─ deep  (left behind)",
        "    1.00 s    0.25 s      4  └─ nohup b",
        "    1.25 s    0.25 s      4     └─ b",
    ]


def test_a_number_that_is_used_again_is_another_process() -> None:
    programs = (
        program(2, 1, "first", at=(0, 1)),
        program(2, 1, "second", at=(5, 6)),
        program(3, 2, "below", at=(5, 6)),
    )
    first, second = tree(programs)
    assert (first.children, [one.program.argv for one in second.children]) == ([], [("below",)])


def test_operations_without_programs_say_what_they_were() -> None:
    commands = (
        command("e/1/1/0", do="read", argv=(), path="notes.txt", exit_code=None),
        command("e/1/2/0", argv=("sh", "-c", "x"), ended=False, exit_code=None),
        command("e/1/3/0", argv=("sh",), exit_code=None, signal="SIGKILL"),
    )
    assert shown(facts(commands=commands, from_journal=True)) == [
        "turn 1, call 0; read notes.txt",
        "turn 2, call 0; sh -c x; did not end",
        "turn 3, call 0; sh; SIGKILL",
        "its supervisor had died: of its programs nothing is known",
    ]


def test_what_was_reached_for_is_told_below() -> None:
    read = MarkedRead(path="key.txt", op_id="e/1/2/0", pid=7, opens=2, reads=1, first_s=1.5)
    asked = ConnectionAttempt(address="127.0.0.1", port=53, name="pypi.org", op_id="e/1/2/0", count=3)
    reached = ConnectionAttempt(address="2001:db8::1", port=443)
    told = facts(marked_reads=(read,), connections=(asked, reached), connections_not_kept=4, unwatched=("b",))
    assert shown(told) == [
        "marked file key.txt read by process 7 at 1.50 s: turn 2, call 0",
        "tried to reach 127.0.0.1:53, for the name pypi.org 3 times: turn 2, call 0",
        "tried to reach [2001:db8::1]:443: of no call that is known",
        "whether these were opened is not known: b",
        "4 more of: attempt",
    ]


def test_each_incarnation_is_told() -> None:
    told = (facts(commands=(command(),)), facts(incarnation=2, processes_not_kept=3))
    assert shown(*told) == ["sandbox 1", "turn 0, call 0; sh; exit code 0", "sandbox 2", "and 3 programs more"]
    said = as_json("e", SandboxEvidence(facts=told[1], earlier=told[:1]))
    assert [one["incarnation"] for one in said["incarnations"]] == [1, 2]


def test_nothing_that_an_agent_ran_steers_the_terminal() -> None:
    told = facts(processes=(program(2, 1, "sh", "-c", "\x1b[2J\nnext\u202e" + "x" * 1000),))
    (_, line) = shown(told)
    assert "\x1b" not in line
    assert "\n" not in line
    assert "\u202e" not in line
    assert len(line) < 250


def test_what_is_deep_is_shown() -> None:
    deep = tuple(program(2 + number, 1 + number, f"p{number}") for number in range(3000))
    assert len(shown(facts(processes=deep))) == 3001
