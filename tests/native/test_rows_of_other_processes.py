"""Rows of batches that come from tasks of other processes, or go there (CL-2)."""

import pytest

from engine.kernel import Backpressure, Mailbox, make_tuple, post_control, post_rows, take_runs
from engine.transactional import TransactionAttempt
from tests.native.stage import source

ATTEMPT = TransactionAttempt(1, 5)
NUMBERS = source("attempt", "number")
WORDS = source("attempt", "word")


@pytest.mark.guarantee("CL-2")
def test_rows_get_the_attempt_in_front_until_the_mailbox_is_full() -> None:
    box, sender = Mailbox(4), Backpressure()
    rows = [(number,) for number in range(6)]
    position = post_rows(box, ATTEMPT, rows, 0, NUMBERS, sender)
    assert position == 4
    assert box.full
    assert sender.stopped_by == 1
    assert [tup.values for tup in box.waiting()] == [(ATTEMPT, number) for number in range(4)]
    assert all(tup[0] is ATTEMPT and tup.fields is NUMBERS.fields for tup in box.waiting())

    assert take_runs(box) == [(NUMBERS, [(0,), (1,), (2,), (3,)])]
    assert sender.stopped_by == 0
    assert post_rows(box, ATTEMPT, rows, position, NUMBERS, None) == 6
    assert take_runs(box) == [(NUMBERS, [(4,), (5,)])]
    assert post_rows(box, ATTEMPT, rows, 6, NUMBERS, None) == 6
    assert take_runs(box) == []


@pytest.mark.guarantee("CL-2")
def test_a_run_ends_where_the_origin_changes_and_control_tuples_keep_their_values() -> None:
    box = Mailbox()
    for values, origin in (((ATTEMPT, 1), NUMBERS), ((ATTEMPT, 2), NUMBERS), ((ATTEMPT, "a"), WORDS), ((ATTEMPT, 3), NUMBERS)):
        box.post(make_tuple(values, origin))
    reports = source("attempt", "counts")
    post_control(box, (ATTEMPT, {7: 3}), reports)
    assert box.waiting()[-1].is_control
    assert take_runs(box) == [(NUMBERS, [(1,), (2,)]), (WORDS, [("a",)]), (NUMBERS, [(3,)]), (reports, [(ATTEMPT, {7: 3})])]


@pytest.mark.guarantee("CL-2")
def test_lists_are_rows_too_and_other_values_are_refused() -> None:
    box = Mailbox()
    assert post_rows(box, ATTEMPT, [[1]], 0, NUMBERS, None) == 1  # type: ignore[list-item]
    assert take_runs(box) == [(NUMBERS, [(1,)])]
    with pytest.raises(TypeError):
        post_rows(box, ATTEMPT, [5], 0, NUMBERS, None)  # type: ignore[list-item]
