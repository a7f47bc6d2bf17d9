"""The fake passes the kit, and the kit notices sandboxes that break a promise: each of its checks notices one."""

import pytest

from schemas.base import sha256
from tests.contract.sandboxes import sabotaged_operations as operations
from tests.contract.sandboxes import sabotaged_sandboxes as sabotaged
from tests.contract.sandboxes.sabotaged_sandboxes import Kind
from tiltyard.errors import DeliveryConflict, EnvironmentFailed, Fenced
from tiltyard.testing import sandbox_audit_checks as audits
from tiltyard.testing import sandbox_command_checks as commands
from tiltyard.testing import sandbox_ending_checks as endings
from tiltyard.testing import sandbox_file_checks as files
from tiltyard.testing.memory_sandboxes import MemorySandboxes
from tiltyard.testing.sandbox_kit import SANDBOX_CHECKS, SandboxBench, SandboxCheck

SLOTS = 4


@pytest.mark.parametrize("check", SANDBOX_CHECKS, ids=lambda check: check.__name__)
async def test_memory_sandboxes(check: SandboxCheck) -> None:
    await check(SandboxBench(MemorySandboxes(SLOTS), "bubblewrap"))


BROKEN: tuple[tuple[SandboxCheck, Kind], ...] = (
    (commands.exit_codes_come_back, sabotaged.telling(lambda reply: {"exit_code": 0})),
    (
        commands.both_outputs_come_back,
        sabotaged.telling(sabotaged.outputs_mixed_up),
    ),
    (commands.input_is_read, sabotaged.asking(lambda request: {"stdin": b""})),
    (
        commands.the_environment_is_what_was_ordered,
        sabotaged.ordering(lambda order: {"environment": {**order.environment, "HOST_SECRET": "x"}}),
    ),
    (commands.an_operation_runs_once, sabotaged.forgetting(lambda request, ended: ended)),
    (commands.all_who_ask_at_once_share_one_run, sabotaged.forgetting(lambda request, ended: True)),
    (commands.a_running_operation_is_attached_to, operations.EndsWithItsListener),
    (commands.a_running_operation_is_attached_to, sabotaged.forgetting(lambda request, ended: not ended)),
    (commands.another_request_under_the_same_id_is_a_conflict, operations.KnowsNoConflict),
    (commands.the_same_command_with_another_time_is_the_same, operations.CountsTheTime),
    (commands.the_same_command_with_another_time_is_the_same, operations.TellsTheLastTime),
    (
        commands.operations_of_two_sandboxes_have_nothing_in_common,
        sabotaged.made_with(sabotaged.files_of_the_first),
    ),
    (
        commands.long_output_keeps_its_ends,
        sabotaged.telling(sabotaged.without_its_end),
    ),
    (
        commands.output_that_is_no_text_is_flagged,
        sabotaged.telling(sabotaged.taken_for_text),
    ),
    (commands.a_timeout_kills_all_that_the_command_started, operations.KillsTheLeaderOnly),
    (
        commands.a_timeout_kills_all_that_the_command_started,
        sabotaged.telling(lambda reply: {"timed_out": False}),
    ),
    (commands.a_background_child_does_not_hold_the_call, operations.WaitsForTheEndOfTheOutput),
    (
        files.it_begins_with_the_ordered_files_and_no_others,
        sabotaged.made_with(sabotaged.something_is_left),
    ),
    (files.bytes_go_in_and_come_out_as_they_are, operations.ReadsText),
    (files.a_file_s_mode_is_kept, sabotaged.showing(lambda entry: {"mode": 0o644})),
    (files.reads_have_an_offset_and_a_limit, sabotaged.asking(lambda request: {"offset": 0})),
    (files.files_have_receipts_too, sabotaged.forgetting(lambda request, ended: request.do == "write")),
    (files.files_have_receipts_too, sabotaged.forgetting(lambda request, ended: request.do == "read")),
    (files.what_is_no_file_is_told_apart, operations.TellsNothingApart),
    (files.links_are_refused_and_never_followed, operations.FollowsLinks),
    (files.links_are_refused_and_never_followed, operations.WritesThroughLinks),
    (
        files.a_full_disk_is_told,
        sabotaged.ordering(
            lambda order: {"limits": order.limits.model_copy(update={"disk_bytes": 2**30})},
        ),
    ),
    (
        files.a_snapshot_holds_everything,
        sabotaged.showing(lambda entry: {} if entry.kind == "file" else None),
    ),
    (files.a_snapshot_holds_everything, sabotaged.showing(lambda entry: {"digest": sha256(b"")})),
    (files.known_contents_are_left_out, operations.SendsEverything),
    (files.known_contents_are_left_out, operations.KnowsByDigestAlone),
    (
        files.links_are_data,
        sabotaged.showing(lambda entry: {"kind": "file", "content": b"root:x:0"} if entry.target else {}),
    ),
    (
        files.a_checkpoint_comes_back_in_the_next_incarnation,
        sabotaged.ordering(lambda order: {"start": files.START}),
    ),
    (
        files.nothing_else_comes_over_to_the_next_incarnation,
        sabotaged.made_with(sabotaged.files_of_the_last),
    ),
    (
        files.nothing_else_comes_over_to_the_next_incarnation,
        sabotaged.made_with(sabotaged.receipts_of_the_last),
    ),
    (endings.a_driver_says_what_it_holds, sabotaged.OffersNoSlot),
    (endings.provision_is_idempotent, sabotaged.AlwaysMakesAnew),
    (endings.provisions_at_once_share_one_sandbox, sabotaged.AlwaysMakesAnew),
    (endings.sandboxes_are_listed_until_they_are_released, sabotaged.ListsAllAsLive),
    (endings.a_higher_incarnation_discards_the_lower, sabotaged.TakesAnyIncarnation),
    (endings.a_command_in_flight_ends_with_its_sandbox, sabotaged.GuessesWhatIsUnknown),
    (endings.an_incarnation_is_provisioned_once, sabotaged.ForgetsWhatWasThere),
    (endings.a_release_names_an_incarnation_and_may_come_twice, sabotaged.ReleasesAnyIncarnation),
    (endings.what_was_never_there_is_lost, sabotaged.SealsWhatIsNotThere),
    (endings.settle_waits_for_what_ends, sabotaged.NeverWaits),
    (endings.settle_gives_up_at_its_limit, sabotaged.IsAlwaysSettled),
    (endings.nothing_new_starts_after_the_seal, operations.ForgetsTheSeal),
    (endings.nothing_new_starts_after_the_seal, operations.ForgetsTheReceiptsAtTheSeal),
    (endings.nothing_new_starts_after_the_seal, sabotaged.CountsNothingLate),
    (endings.a_drain_ends_everything_and_says_so_again, sabotaged.ReportsNothing),
    (endings.a_drain_ends_everything_and_says_so_again, sabotaged.LiesAboutEmpty),
    (endings.a_drain_of_nothing_finds_nothing, sabotaged.CountsItself),
    (endings.a_late_writer_does_not_outlive_the_drain, sabotaged.LiesAboutEmpty),
    (endings.a_command_in_flight_is_ended_by_the_drain, sabotaged.stating(sabotaged.all_ended)),
    (
        endings.facts_tell_operations_programs_and_environment,
        sabotaged.stating(lambda facts: {"processes": ()}),
    ),
    (
        endings.facts_tell_operations_programs_and_environment,
        sabotaged.stating(lambda facts: {"commands": facts.commands[:-1]}),
    ),
    (endings.a_sweep_spares_whatever_somebody_has, sabotaged.SweepsAwayWhatIsThere),
    (endings.a_sweep_spares_whatever_somebody_has, sabotaged.SweepsAwayWhatIsSealed),
    (
        audits.whole_outputs_have_digests,
        sabotaged.stating(lambda facts: {"commands": sabotaged.each(facts.commands, stdout=None)}),
    ),
    (
        audits.whole_outputs_have_digests,
        sabotaged.telling(lambda reply: {"stdout": reply.exec and reply.exec.stderr}),
    ),
    (
        audits.programs_and_commands_have_times,
        sabotaged.stating(lambda facts: {"processes": sabotaged.each(facts.processes, started_s=None)}),
    ),
    (
        audits.programs_and_commands_have_times,
        sabotaged.stating(lambda facts: {"commands": sabotaged.each(facts.commands, ended_s=1e6)}),
    ),
    (
        audits.reads_of_marked_files_are_told,
        sabotaged.ordering(lambda order: {"marked": {}}),
    ),
    (
        audits.reads_of_marked_files_are_told,
        sabotaged.stating(lambda facts: {"marked_reads": facts.marked_reads[:1]}),
    ),
    (
        audits.what_is_not_marked_is_not_told,
        sabotaged.ordering(lambda order: {"marked": {one.path: one.path for one in order.start.entries}}),
    ),
    (audits.a_driver_says_what_it_tells, sabotaged.stating(lambda facts: {"watched": "snapshots"})),
    (audits.a_driver_says_what_it_tells, sabotaged.ordering(lambda order: {"marked": {}})),
    (
        audits.marks_are_set_again_in_the_next_incarnation,
        sabotaged.ordering(lambda order: {"marked": {"key.txt": "key.txt"}}),
    ),
    (endings.slots_bound_how_many_there_are, sabotaged.HasMoreThanItOffers),
    (endings.slots_bound_how_many_there_are, sabotaged.SaysThatThereIsRoom),
)


@pytest.mark.parametrize(
    ("check", "kind"), BROKEN, ids=[f"{check.__name__}-{number}" for number, (check, _) in enumerate(BROKEN)]
)
async def test_a_broken_promise_is_noticed(check: SandboxCheck, kind: Kind) -> None:
    with pytest.raises((AssertionError, DeliveryConflict, EnvironmentFailed, Fenced)):
        await check(SandboxBench(kind(SLOTS), "bubblewrap", patience_s=2))


def test_every_check_notices_something() -> None:
    assert {check for check, _ in BROKEN} == set(SANDBOX_CHECKS)
