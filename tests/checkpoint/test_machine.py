"""The state machine of checkpoints as a table: allowed sequences, and impossible ones (CP-3)."""

import random

import pytest

from engine.checkpoint.machine import MOST_COUNTED, TABLE, Event, Machine, Record, Step, settled_at_start
from tests.checkpoint.machine_page import PAGE, drawn, with_drawing


def walk(*events: Event, record: Record | None = None) -> Machine:
    machine = Machine(record or Record())
    for event in events:
        assert machine.apply_event(event), f"{event} has no effect in {machine.record.phase}, {machine.step}"
    return machine


@pytest.mark.guarantee("CP-3")
def test_the_first_checkpoint_initialises_prepares_and_commits() -> None:
    machine = Machine(Record())
    seen = []
    for event in (Event.BEGIN, Event.DONE, Event.DUE, Event.DONE, Event.DONE):
        machine.apply_event(event)
        seen.append((machine.record.phase, machine.record.txid, machine.action, machine.record.round))

    assert seen == [
        ("committed", -1, "initstate", 1),
        ("committed", -1, None, 1),
        ("preparing", 0, "prepare", 2),
        ("committing", 0, "commit", 3),
        ("committed", 0, None, 3),
    ]
    assert machine.record.counted == ((0, 2),)


@pytest.mark.guarantee("CP-3")
def test_a_prepare_that_fails_is_rolled_back_and_never_counts() -> None:
    machine = walk(Event.BEGIN, Event.DONE, Event.DUE, Event.FAILED)

    assert (machine.record.phase, machine.action, machine.recovers) == ("preparing", "rollback", True)
    assert machine.apply_event(Event.FAILED)
    assert machine.action == "rollback"
    assert machine.apply_event(Event.DONE)
    assert (machine.record.phase, machine.record.txid, machine.action) == ("committed", -1, "initstate")
    assert machine.apply_event(Event.DONE)
    assert (machine.step, machine.record.counted) == (Step.IDLE, ())


@pytest.mark.guarantee("CP-3")
def test_a_commit_that_fails_is_repeated_until_it_is_done() -> None:
    machine = walk(Event.BEGIN, Event.DONE, Event.DUE, Event.DONE, Event.FAILED, Event.FAILED)

    assert (machine.record.phase, machine.record.txid, machine.action) == ("committing", 0, "commit")
    assert machine.record.is_committed(0, machine.record.prepared_round)
    assert machine.apply_event(Event.DONE)
    assert (machine.record.phase, machine.record.txid, machine.action) == ("committed", 0, "initstate")


@pytest.mark.guarantee("CP-3")
def test_a_task_that_dies_between_two_checkpoints_is_initialised_at_once() -> None:
    assert walk(Event.BEGIN, Event.DONE, Event.FAILED).action == "initstate"


@pytest.mark.guarantee("CP-3", "CP-7")
@pytest.mark.parametrize(
    ("phase", "after", "decided", "actions"),
    [
        ("preparing", "committed", 3, ["initstate", None]),
        ("committing", "committing", 4, ["commit", "initstate", None]),
        ("committed", "committed", 4, ["initstate", None]),
    ],
)
def test_a_start_repeats_an_interrupted_commit_and_drops_an_interrupted_prepare(
    phase: str, after: str, decided: int, actions: list[str | None]
) -> None:
    record = Record(phase, 4, round=9, prepared_round=8, counted=((3, 5),))  # type: ignore[arg-type]

    settled = settled_at_start(record)

    assert (settled.phase, settled.decided_txid, settled.round, settled.counted) == (after, decided, 9, ((3, 5),))
    machine = walk(Event.BEGIN, record=settled)
    assert [machine.action, *(machine.action for _ in actions[1:] if machine.apply_event(Event.DONE))] == actions
    assert (machine.record.phase, machine.record.txid) == ("committed", decided)


@pytest.mark.guarantee("CP-3")
@pytest.mark.parametrize("seed", range(50))
def test_in_any_sequence_rounds_rise_and_each_txid_is_committed_once(seed: int) -> None:
    draws = random.Random(seed)
    machine = walk(Event.BEGIN)
    committed = -1
    for _ in range(2000):
        before = machine.record
        if not machine.apply_event(draws.choice([Event.DUE, Event.DONE, Event.FAILED])):
            assert machine.record == before
            continue
        after = machine.record
        assert after.round == before.round + (machine.action is not None)
        assert abs(after.txid - before.txid) <= 1
        if after.phase == "committed" and before.phase == "committing":
            assert after.txid == committed + 1
            committed = after.txid
        assert after.txid == committed + (after.phase != "committed")
        txids = [txid for txid, _ in after.counted]
        assert txids == list(range(committed + (after.phase == "committing"), -1, -1))[:MOST_COUNTED][::-1]


def test_every_state_of_the_table_can_be_reached_and_left() -> None:
    reached = {("committed", Step.IDLE), ("committing", Step.IDLE)} | {(transition.phase, transition.step) for transition in TABLE.values()}
    left = {(phase, step) for phase, step, _ in TABLE}
    assert reached == left


def test_an_event_without_a_row_changes_nothing() -> None:
    machine = walk(Event.BEGIN)
    assert not machine.apply_event(Event.DUE)
    assert machine.step is Step.INITIALISE


def test_the_diagram_of_the_page_equals_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert drawn() in page, "python -m tests.checkpoint.machine_page"
    assert with_drawing(page) == page
