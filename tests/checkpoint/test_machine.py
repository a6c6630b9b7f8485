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
def test_the_first_checkpoint_recovers_prepares_and_commits() -> None:
    machine = Machine(Record())
    seen = []
    for event in (Event.BEGIN, Event.DONE, Event.DUE, Event.DONE, Event.DONE):
        machine.apply_event(event)
        seen.append((machine.record.phase, machine.record.txid, machine.step, machine.record.round))

    assert seen == [
        ("committed", -1, Step.RECOVER, 1),
        ("committed", -1, Step.IDLE, 1),
        ("preparing", 0, Step.PREPARE, 2),
        ("committing", 0, Step.COMMIT, 3),
        ("committed", 0, Step.IDLE, 3),
    ]
    assert machine.record.counted == ((0, 2),)


@pytest.mark.guarantee("CP-3")
def test_a_prepare_that_fails_never_counts() -> None:
    machine = walk(Event.BEGIN, Event.DONE, Event.DUE, Event.FAILED)

    assert (machine.record.phase, machine.record.txid, machine.step, machine.recovers) == ("committed", -1, Step.RECOVER, True)
    assert machine.apply_event(Event.FAILED)
    assert machine.step is Step.RECOVER
    assert machine.apply_event(Event.DONE)
    assert (machine.step, machine.record.counted) == (Step.IDLE, ())


@pytest.mark.guarantee("CP-3")
def test_a_recovery_completes_a_commit_that_failed() -> None:
    machine = walk(Event.BEGIN, Event.DONE, Event.DUE, Event.DONE, Event.FAILED, Event.FAILED)

    assert (machine.record.phase, machine.record.txid, machine.step) == ("committing", 0, Step.RECOVER)
    assert machine.record.is_committed(0, machine.record.prepared_round)
    assert machine.apply_event(Event.DONE)
    assert (machine.record.phase, machine.record.txid, machine.step) == ("committed", 0, Step.IDLE)


@pytest.mark.guarantee("CP-3", "EO-5")
@pytest.mark.parametrize("events", [(), (Event.DUE,), (Event.DUE, Event.DONE)], ids=["idle", "prepare", "commit"])
def test_a_death_in_any_step_recovers_at_once(events: tuple[Event, ...]) -> None:
    assert walk(Event.BEGIN, Event.DONE, *events, Event.FAILED).recovers


@pytest.mark.guarantee("CP-3", "CP-7")
@pytest.mark.parametrize(
    ("phase", "after", "decided"), [("preparing", "committed", 3), ("committing", "committing", 4), ("committed", "committed", 4)]
)
def test_a_start_completes_an_interrupted_commit_and_drops_an_interrupted_prepare(phase: str, after: str, decided: int) -> None:
    record = Record(phase, 4, round=9, prepared_round=8, counted=((3, 5),))  # type: ignore[arg-type]

    settled = settled_at_start(record)

    assert (settled.phase, settled.decided_txid, settled.round, settled.counted) == (after, decided, 9, ((3, 5),))
    machine = walk(Event.BEGIN, record=settled)
    assert (machine.record.phase, machine.step) == (after, Step.RECOVER)
    assert machine.apply_event(Event.DONE)
    assert (machine.record.phase, machine.record.txid, machine.step) == ("committed", decided, Step.IDLE)


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
        assert after.round == before.round + (machine.step is not Step.IDLE)
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
    assert machine.step is Step.RECOVER


def test_the_diagram_of_the_page_equals_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert drawn() in page, "python -m tests.checkpoint.machine_page"
    assert with_drawing(page) == page
