"""Which rows are given up, as a decision without a run (TX-13, DL-2, DL-3)."""

from collections.abc import Mapping

import pytest

from engine.dead_letters import MOST_LETTERS, DeadLetter, EncodedRow, StoredLetters, encode_row, letters_in
from engine.errors import ERROR, Failure
from engine.state.codec import MessagePack
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.attempt_rows import FailedRow, RowReport
from engine.transactional.given_up import GivenUpRows

FAILURE = Failure(ERROR, "parse", 3, "ValueError: bad")


def row(value: object) -> EncodedRow:
    return encode_row("lines", "default", (value,), MessagePack())


def report(passed: int, failed: Mapping[bytes, int], left_out: tuple[EncodedRow, ...] = (), *, knew_orders: bool = True) -> RowReport:
    told = {digest: FailedRow(copies, "ValueError: bad") for digest, copies in failed.items()}
    return RowReport("parse", passed, told, left_out, FAILURE if failed else None, knew_orders)


def tasks_of(component_id: str) -> list[int]:
    return [3, 4]


def attempt(number: int, txid: int = 1) -> TransactionAttempt:
    return TransactionAttempt(txid, number)


def fail(given_up: GivenUpRows, number: int, *reports: RowReport, room: int = 100, in_commit: bool = False) -> tuple[int, str]:
    """Let an attempt fail with these reports of tasks 3, 4, …"""
    given_up.begin_attempt(attempt(number))
    for task, each in enumerate(reports, 3):
        given_up.take_report(attempt(number), task, each, in_commit=in_commit)
    judged = given_up.judge(attempt(number), FAILURE, room=room)
    return judged.given_up, judged.stuck


@pytest.mark.guarantee("TX-13")
def test_failures_at_several_tasks_are_of_the_same_row() -> None:
    given_up, bad = GivenUpRows(2, tasks_of, replays_differ=False), row("bad").digest
    assert fail(given_up, 1, report(5, {bad: 1}), report(4, {})) == (0, "")
    assert fail(given_up, 2, report(4, {}), report(5, {bad: 1})) == (1, "")
    orders = given_up.begin_attempt(attempt(3))
    assert orders is not None
    assert (orders.given_up, orders.watched) == ({"parse": {bad: 1}}, {"parse"})


@pytest.mark.guarantee("TX-13")
def test_a_row_alone_at_its_task_counts_if_another_task_has_processed_one() -> None:
    given_up, bad = GivenUpRows(2, tasks_of, replays_differ=False), row("bad").digest
    given, stuck = fail(given_up, 1, report(0, {bad: 1}))
    assert given == 0
    assert "'parse' to process any row of batch 1" in stuck
    assert fail(given_up, 2, report(0, {bad: 1}), report(1, {})) == (0, "")
    assert fail(given_up, 3, report(0, {bad: 1}), report(1, {})) == (1, "")


@pytest.mark.guarantee("TX-13")
def test_an_attempt_that_failed_elsewhere_does_not_count() -> None:
    given_up, bad = GivenUpRows(1, tasks_of, replays_differ=False), row("bad").digest
    given_up.take_report(attempt(1), 3, report(5, {bad: 1}), in_commit=False)
    assert given_up.judge(attempt(1), Failure(ERROR, "store", 9, "away"), room=100) == (0, "")
    assert given_up.begin_attempt(attempt(2)) is None


@pytest.mark.guarantee("TX-13")
@pytest.mark.parametrize("opaque", [False, True])
def test_once_the_commit_of_a_batch_has_begun_it_lacks_the_same_rows(opaque: bool) -> None:
    given_up, bad, other = GivenUpRows(1, tasks_of, replays_differ=opaque), row("bad"), row("other")
    assert fail(given_up, 1, report(5, {bad.digest: 1})) == (1, "")
    given_up.begin_attempt(attempt(2))
    given_up.take_report(attempt(2), 3, report(4, {}, (bad,)), in_commit=False)
    [letter] = given_up.letters(attempt(2), 17.0)
    assert (letter.attempt_id, letter.error, letter.attempts, letter.written_at) == (2, "ValueError: bad", 1, 17.0)
    given_up.begin_commit(1)
    given, stuck = fail(given_up, 3, report(5, {other.digest: 1}))
    assert given == opaque
    assert ("its commit has begun" in stuck) != opaque


@pytest.mark.guarantee("TX-13")
def test_an_attempt_fails_if_a_task_has_lost_the_rows_to_leave_out() -> None:
    given_up, bad = GivenUpRows(1, tasks_of, replays_differ=False), row("bad")
    fail(given_up, 1, report(5, {bad.digest: 1}))
    for lost in (None, report(5, {}, knew_orders=False)):
        given_up.begin_attempt(attempt(2))
        given_up.take_report(attempt(2), 3, report(4, {}), in_commit=False)
        if lost is not None:
            given_up.take_report(attempt(2), 4, lost, in_commit=False)
        failure = given_up.failure(attempt(2), in_commit=False)
        assert failure is not None
        assert failure.describe() == "'parse' (task 4) died: it had been told which rows batch 1 (attempt 0.2) leaves out"
    given_up.take_report(attempt(2), 4, report(5, {}), in_commit=False)
    assert given_up.failure(attempt(2), in_commit=False) is None


@pytest.mark.guarantee("TX-13")
def test_rows_that_fail_in_the_commit_phase_are_not_given_up() -> None:
    given_up = GivenUpRows(1, tasks_of, replays_differ=True)
    given, stuck = fail(given_up, 1, report(5, {row("bad").digest: 1}), in_commit=True)
    assert given == 0
    assert "'parse' to process all rows of batch 1, of which none can be given up" in stuck


@pytest.mark.guarantee("TX-13", "DL-2")
def test_the_next_run_leaves_out_what_the_batch_in_doubt_left_out() -> None:
    bad = row("bad")
    letters = [DeadLetter(1, 2, "parse", 3, bad, "ValueError: bad", 3, 17.0)] * 2
    given_up = GivenUpRows(3, tasks_of, replays_differ=False)
    given_up.restore(1, letters)
    orders = given_up.begin_attempt(attempt(2**32 + 1))
    assert orders is not None
    assert orders.given_up == {"parse": {bad.digest: 2}}


@pytest.mark.guarantee("DL-3")
def test_without_room_for_its_letters_no_row_is_given_up() -> None:
    given_up, bad = GivenUpRows(1, tasks_of, replays_differ=False), row("bad").digest
    given, stuck = fail(given_up, 1, report(5, {bad: 2}), room=1)
    assert given == 0
    assert "room for the dead letters of batch 1 (2 rows of 'parse')" in stuck
    assert fail(given_up, 2, report(5, {bad: 2}), room=2) == (2, "")
    assert fail(given_up, 3, report(5, {row("other").digest: 1}), room=2)[0] == 0


@pytest.mark.guarantee("DL-2", "DL-3")
def test_letters_of_another_attempt_replace_those_of_the_attempt_before() -> None:
    stored = StoredLetters({})
    entries: dict[str, object] = {}

    def save(attempt_id: int, *values: str) -> None:
        letters = [DeadLetter(4, attempt_id, "parse", 3, row(value), "e", 3, float(attempt_id)) for value in values]
        for name, entry in stored.replace(4, letters).items():
            if entry is None:
                del entries[name]
            else:
                entries[name] = entry

    save(1, "a", "b")
    save(2, "c")
    assert [(letter.attempt_id, letter.row) for letter in letters_in(entries).values()] == [(2, row("c"))]
    assert (len(stored), stored.room) == (1, MOST_LETTERS - 1)
    again = StoredLetters(entries)
    assert (len(again), again.last, again.of_txid(4)) == (1, stored.last, [stored.last])
    save(3)
    assert entries == {}
    assert stored.replace(5, []) == {}


@pytest.mark.guarantee("DL-3")
def test_a_ledger_of_bounded_size_keeps_slim_letters() -> None:
    stored = StoredLetters({}, most_bytes=500_000)
    assert 50 < stored.room < 200
    letters = [DeadLetter(1, 1, "parse", 3, row("x" * 10_000), "e" * 2_000, 3, 1.0)] * stored.room
    changes = stored.replace(1, letters)
    assert len(MessagePack().encode(changes)) < 500_000
    assert stored.last is not None
    assert stored.last.row.text == "values of 10,004 bytes"


@pytest.mark.guarantee("TX-13")
def test_the_next_run_gives_up_no_row_of_a_batch_in_doubt_that_lacked_none() -> None:
    """A committer may have stored it with all its rows."""
    given_up, bad = GivenUpRows(1, tasks_of, replays_differ=False), row("bad").digest
    given_up.restore(1, [])
    given, stuck = fail(given_up, 2**32 + 1, report(5, {bad: 1}))
    assert given == 0
    assert "its commit has begun" in stuck
