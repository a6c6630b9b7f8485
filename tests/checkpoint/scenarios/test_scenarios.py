"""Scenarios in which a simpler rule than that of the engine loses or doubles rows, or stands still (EO-1, EO-3, EO-5, EO-6).

Each scenario returns what was counted. With its mutant, which is the simpler rule, the same scenario must give another result.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import pytest

from engine.errors import EngineError
from tests.checkpoint.scenarios.failing import (
    AcksOthers,
    EmitsUnanchored,
    FailsOnce,
    a_row_kills_its_task,
    another_order,
    deaths_do_not_count,
    failed_behind_the_count,
    failed_once,
    last_row_is_bad,
    lone_rows_never_count,
    no_row_is_owed,
    only_changes_are_effects,
    outage,
    outages_count,
    outages_count_alone,
    retried_behind_the_barrier,
    retries_alone,
    rows_are_known_by_ordinal,
    told_at_once,
)
from tests.checkpoint.scenarios.flow_control import packs_are_resent, position_of_read_ahead, read_ahead, returned_packs
from tests.checkpoint.scenarios.kept_and_taken_back import (
    forwards_at_once,
    instances_are_kept,
    kept_across_the_barrier,
    mailboxes_are_kept,
    only_the_dead_task_goes_back,
    position_ahead_of_pending_rows,
    rows_in_attributes,
    rows_in_mailboxes,
    takes_position_before_rows,
    two_counts_of_which_one_dies,
    unreported_partition,
    unreported_partitions_are_forgotten,
)
from tests.checkpoint.scenarios.kit import once
from tests.checkpoint.scenarios.standing_still import (
    fixed_deadline,
    full_mailbox,
    held_spouts_keep_their_rows,
    hung_call,
    late_checkpoints_hold_nothing,
    one_source_waits_in_a_poll,
    rows_of_a_late_checkpoint,
    sink_away_for_an_hour,
    waits_for_the_call,
    waits_for_the_poll,
)

Patch: TypeAlias = pytest.MonkeyPatch
Mutant: TypeAlias = Callable[[Patch], None]

EXPECTED: Final[Mapping[Callable[..., Any], Counter[Any]]] = {
    position_ahead_of_pending_rows: once(5000),
    full_mailbox: once(300),
    rows_of_a_late_checkpoint: once(4000),
    one_source_waits_in_a_poll: once(40) + Counter(range(1000, 1010)),
    a_row_kills_its_task: once(40) - Counter([5]),
    another_order: once(40) - Counter([7]),
    last_row_is_bad: once(40) - Counter([39]),
}
"""What a scenario counts, if that is not the rows 0 to 39 once."""

counted_beside = partial(failed_once, FailsOnce, beside=True)
counted_unanchored = partial(failed_once, EmitsUnanchored, beside=False)
emitted_with_others = partial(failed_once, AcksOthers, beside=False)

SCENARIOS: Final = [
    pytest.param(kept_across_the_barrier, forwards_at_once, id="1", marks=pytest.mark.guarantee("EO-1", "EO-3")),
    pytest.param(retried_behind_the_barrier, no_row_is_owed, id="2", marks=pytest.mark.guarantee("EO-1", "EO-2")),
    pytest.param(counted_beside, told_at_once, id="3", marks=pytest.mark.guarantee("EO-1", "EO-6")),
    pytest.param(failed_behind_the_count, only_changes_are_effects, id="4-pre_prepare", marks=pytest.mark.guarantee("EO-1", "EO-6")),
    pytest.param(counted_unanchored, only_changes_are_effects, id="4-unanchored", marks=pytest.mark.guarantee("EO-1", "EO-6")),
    pytest.param(emitted_with_others, retries_alone, id="13", marks=pytest.mark.guarantee("EO-1", "EO-6")),
    pytest.param(position_ahead_of_pending_rows, takes_position_before_rows, id="5", marks=pytest.mark.guarantee("EO-1", "EO-2")),
    pytest.param(read_ahead, position_of_read_ahead, id="5-read-ahead", marks=pytest.mark.guarantee("EO-1", "EO-2")),
    pytest.param(returned_packs, packs_are_resent, id="5-returned", marks=pytest.mark.guarantee("EO-1", "EO-6")),
    pytest.param(two_counts_of_which_one_dies, only_the_dead_task_goes_back, id="6", marks=pytest.mark.guarantee("EO-1", "EO-5")),
    pytest.param(rows_in_attributes, instances_are_kept, id="7-attributes", marks=pytest.mark.guarantee("EO-1", "EO-5")),
    pytest.param(rows_in_mailboxes, mailboxes_are_kept, id="7-mailboxes", marks=pytest.mark.guarantee("EO-1", "EO-5")),
    pytest.param(hung_call, waits_for_the_call, id="8", marks=pytest.mark.guarantee("EO-5")),
    pytest.param(full_mailbox, fixed_deadline, id="9", marks=pytest.mark.guarantee("EO-1", "EO-3")),
    pytest.param(sink_away_for_an_hour, late_checkpoints_hold_nothing, id="10", marks=pytest.mark.guarantee("EO-1", "EO-3")),
    pytest.param(rows_of_a_late_checkpoint, held_spouts_keep_their_rows, id="10-rows", marks=pytest.mark.guarantee("EO-1", "EO-3")),
    pytest.param(one_source_waits_in_a_poll, waits_for_the_poll, id="12", marks=pytest.mark.guarantee("EO-1")),
    pytest.param(another_order, rows_are_known_by_ordinal, id="14", marks=pytest.mark.guarantee("EO-6")),
    pytest.param(a_row_kills_its_task, deaths_do_not_count, id="15", marks=pytest.mark.guarantee("EO-6")),
    pytest.param(last_row_is_bad, lone_rows_never_count, id="16-lone", marks=pytest.mark.guarantee("EO-6")),
    pytest.param(outage, outages_count, id="16", marks=pytest.mark.guarantee("EO-6")),
    pytest.param(outage, outages_count_alone, id="16-alone", marks=pytest.mark.guarantee("EO-6")),
    pytest.param(unreported_partition, unreported_partitions_are_forgotten, id="25", marks=pytest.mark.guarantee("EO-1", "EO-2")),
]
"""Each scenario with its mutant, named by the number of the scenario in the design."""


@pytest.mark.parametrize(("scenario", "mutant"), SCENARIOS)
def test_each_row_is_counted_once_and_the_simpler_rule_is_caught(
    scenario: Callable[[], Counter[Any]], mutant: Mutant, monkeypatch: Patch
) -> None:
    assert scenario() == EXPECTED.get(scenario, once(40))

    mutant(monkeypatch)
    try:
        result: object = scenario()
    except EngineError as error:
        result = type(error)
    assert result != EXPECTED.get(scenario, once(40))
