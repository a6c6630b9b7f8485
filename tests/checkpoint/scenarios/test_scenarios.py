"""Scenarios in which a simpler rule than that of the engine loses or doubles rows, or stands still (EO-1, EO-3, EO-5, EO-6).

Each scenario returns what was counted. With its mutant, the simpler rule, it loses or doubles rows, or stands still.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import pytest

from engine.errors import ComponentError, EngineError, TopologyError
from tests.checkpoint.scenarios import committing, failing, rowless
from tests.checkpoint.scenarios import deadly_rows as deadly
from tests.checkpoint.scenarios import flow_control as flow
from tests.checkpoint.scenarios import kept_and_taken_back as kept
from tests.checkpoint.scenarios import standing_still as still
from tests.checkpoint.scenarios.kit import once

Patch: TypeAlias = pytest.MonkeyPatch
Scenario: TypeAlias = Callable[[], Counter[Any]]
Mutant: TypeAlias = Callable[[Patch], None]

EXPECTED: Final[Mapping[Scenario, Counter[Any] | type[EngineError]]] = {
    kept.position_ahead_of_pending_rows: once(5000),
    still.full_mailbox: once(300),
    still.rows_of_a_late_checkpoint: once(4000),
    still.one_source_waits_in_a_poll: once(40) + Counter(range(1000, 1010)),
    deadly.a_row_kills_its_task: once(40) - Counter([5]),
    deadly.a_row_kills_its_burst: once(40) - Counter([35]),
    deadly.a_row_hangs: once(40) - Counter([5]),
    deadly.a_row_ends_the_process: once(40) - Counter([5]),
    still.full_spout: once(200),
    committing.a_row_is_refused_at_publish: once(40) - Counter([7]),
    committing.a_committer_emits_what_it_has_published: TopologyError,
    committing.a_table_of_a_transactional_topology: ComponentError,
    committing.the_state_goes_back_by_one_commit: ComponentError,
    failing.another_order: once(40) - Counter([7]),
    failing.last_row_is_bad: once(40) - Counter([39]),
    rowless.a_window_fails_once: once(40) + Counter(range(1000, 1004)),
    rowless.a_window_always_fails: once(40) + Counter([1000, 1001, 1003]),
}
"""What a scenario counts, if that is not the rows 0 to 39 once. An error: the engine refuses it."""

counted_beside = partial(failing.failed_once, failing.FailsOnce, beside=True)
counted_unanchored = partial(failing.failed_once, failing.EmitsUnanchored, beside=False)
emitted_with_others = partial(failing.failed_once, failing.AcksOthers, beside=False)


def _played(number: str, letter: str, scenario: Scenario, mutant: Mutant, *guarantees: str) -> Any:
    """Return the parameters of a test. number: of the scenario in the design. letter: what becomes of the rows with the mutant."""
    return pytest.param(scenario, mutant, letter, id=number, marks=pytest.mark.guarantee(*guarantees))


SCENARIOS: Final = [
    _played("1", "L", kept.kept_across_the_barrier, kept.forwards_at_once, "EO-1", "EO-3"),
    _played("2", "L", failing.retried_behind_the_barrier, failing.no_row_is_owed, "EO-1", "EO-2"),
    _played("3", "D", counted_beside, failing.told_at_once, "EO-1", "EO-6"),
    _played("4-pre_prepare", "D", failing.failed_behind_the_count, failing.only_changes_are_effects, "EO-1", "EO-6"),
    _played("4-unanchored", "D", counted_unanchored, failing.only_changes_are_effects, "EO-1", "EO-6"),
    _played("5", "L", kept.position_ahead_of_pending_rows, kept.takes_position_before_rows, "EO-1", "EO-2"),
    _played("5-read-ahead", "L", flow.read_ahead, flow.position_of_read_ahead, "EO-1", "EO-2"),
    _played("5-returned", "D", flow.returned_packs, flow.packs_are_resent, "EO-1", "EO-6"),
    _played("6", "D", kept.two_counts_of_which_one_dies, kept.only_the_dead_task_goes_back, "EO-1", "EO-5"),
    _played("7-attributes", "D", kept.rows_in_attributes, kept.instances_are_kept, "EO-1", "EO-5"),
    _played("7-mailboxes", "D", kept.rows_in_mailboxes, kept.mailboxes_are_kept, "EO-1", "EO-5"),
    _played("8", "S", still.hung_call, still.waits_for_the_call, "EO-5"),
    _played("9", "S", still.full_mailbox, still.fixed_deadline, "EO-1", "EO-3"),
    _played("10", "S", still.sink_away_for_an_hour, still.late_checkpoints_hold_nothing, "EO-1", "EO-3"),
    _played("10-rows", "S", still.rows_of_a_late_checkpoint, still.held_spouts_keep_their_rows, "EO-1", "EO-3"),
    _played("11-full", "S", still.full_spout, still.full_spouts_wait_for_a_commit, "EO-1"),
    _played("11-filtered", "L", still.all_rows_are_filtered, still.only_changes_are_work, "EO-2"),
    _played("11-passed", "L", still.all_rows_are_filtered_by_their_source, still.only_emits_are_work, "EO-2"),
    _played("12", "S", still.one_source_waits_in_a_poll, still.waits_for_the_poll, "EO-1"),
    _played("13", "D", emitted_with_others, failing.retries_alone, "EO-1", "EO-6"),
    _played("14", "L", failing.another_order, failing.rows_are_known_by_ordinal, "EO-6"),
    _played("14-compacted", "S", failing.the_last_row_comes_once, failing.a_pass_ends_with_the_rows_of_the_first_one, "EO-6"),
    _played("15", "S", deadly.a_row_kills_its_task, deadly.deaths_do_not_count, "EO-6"),
    _played("15-neighbours", "L", deadly.a_row_kills_its_burst, deadly.all_rows_that_die_count, "EO-6"),
    _played("15-hangs", "S", deadly.a_row_hangs, deadly.deaths_do_not_count, "EO-6"),
    _played("15-process", "S", deadly.a_row_ends_the_process, deadly.no_row_is_named_before_it_goes, "EO-6"),
    _played("16-lone", "S", failing.last_row_is_bad, failing.lone_rows_never_count, "EO-6"),
    _played("16", "L", failing.outage, failing.outages_count, "EO-6"),
    _played("16-alone", "L", failing.outage, failing.outages_count_alone, "EO-6"),
    _played("17", "S", rowless.a_window_always_fails, rowless.inputs_are_known_by_values, "EO-6", "DL-5"),
    _played("17-unnoticed", "L", rowless.a_window_fails_once, rowless.nobody_reports_them, "EO-6"),
    _played("18", "D", failing.long_retries, failing.retries_do_not_wait, "ACK-8", "SV-13"),
    _played("19", "S", committing.a_row_is_refused_at_publish, committing.refused_rows_are_errors_like_others, "EO-9"),
    _played("20", "L", committing.a_committer_emits_what_it_has_published, committing.committers_may_emit, "EO-9"),
    _played("21", "L", committing.published_by_two_tasks_of_which_one_dies, committing.the_attempt_is_that_of_the_commit, "EO-9"),
    _played("22", "L", committing.a_table_of_a_transactional_topology, committing.txids_are_not_compared, "EO-9"),
    _played("23", "L", committing.parallelism_changed_in_a_commit, committing.tasks_publish_only_their_own, "EO-8", "EO-9"),
    _played("24", "L", committing.the_state_goes_back_by_one_commit, committing.txids_are_not_compared, "EO-9"),
    _played("25", "D", kept.unreported_partition, kept.unreported_partitions_are_forgotten, "EO-1", "EO-2"),
]
"""Each scenario with its mutant. 26 is elsewhere, and 27 is in `test_held_verdicts`."""


BROKEN: Final = ("TypeError", "AttributeError", "NameError", "EngineBug")


def _outcome(scenario: Scenario) -> Counter[Any] | type[EngineError]:
    """Return what a scenario counts, or the class of the error with which it ends."""
    try:
        return scenario()
    except EngineError as error:
        return type(error)


def _fate(outcome: Counter[Any] | type[EngineError], rows: Counter[Any]) -> str:
    """Return what has become of the rows: L for lost, D for doubled, S for a run that does not end, or notes that it takes too long."""
    if isinstance(outcome, type):
        return "S"
    doubled = +Counter({row: count - rows[row] for row, count in outcome.items() if row in rows})
    others = outcome.keys() - rows.keys()
    return "L" * bool(rows - outcome) + "D" * bool(doubled) + "S" * bool(others)


@pytest.mark.parametrize(("scenario", "mutant", "letter"), SCENARIOS)
def test_each_row_is_counted_once_and_the_simpler_rule_is_caught(
    scenario: Scenario, mutant: Mutant, letter: str, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = EXPECTED.get(scenario, once(40))
    assert _outcome(scenario) == expected

    mutant(monkeypatch)
    rows = once(40) if isinstance(expected, type) else expected
    fate = _fate(_outcome(scenario), rows)
    assert not any(name in caplog.text for name in BROKEN), "the mutant is no rule, because its patch is broken"
    assert letter in fate
