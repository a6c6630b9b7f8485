"""The state machine of transactions: its table, and random sequences compared with a model of flags (TX-1, TX-2, TX-3)."""

import random
from dataclasses import dataclass
from itertools import product
from typing import Final

import pytest

from engine.transactional.attempt import TransactionAttempt, first_attempt_id
from engine.transactional.machine import TABLE, Event, Instruction, Machine, Phase

WAYS: Final = {
    Phase.PROCESSING: (),
    Phase.SAVING: (Event.PROCESSED,),
    Phase.COMMITTING: (Event.PROCESSED, Event.SAVED),
}
"""Events that bring the oldest transaction into each phase."""
AFTER: Final = {
    (Phase.PROCESSING, Event.PROCESSED): (Phase.SAVING, ["save 1"]),
    (Phase.PROCESSING, Event.FAILED): (Phase.PROCESSING, ["process 1", "process 2"]),
    (Phase.SAVING, Event.SAVED): (Phase.COMMITTING, ["commit 1"]),
    (Phase.SAVING, Event.FAILED): (Phase.PROCESSING, ["process 1", "process 2"]),
    (Phase.COMMITTING, Event.COMMITTED): (Phase.COMMITTED, ["committed 1"]),
    (Phase.COMMITTING, Event.FAILED): (Phase.PROCESSING, ["process 1", "process 2"]),
}
"""Instructions that follow an event of the oldest of two transactions. Any other event has none."""


def texts_of(instructions: list[Instruction]) -> list[str]:
    return [f"{instruction.kind} {instruction.transaction.txid}" for instruction in instructions]


def two_open(phase: Phase) -> Machine:
    """Machine with txid 1 in a phase, and txid 2 behind it in processing."""
    machine = Machine(committed=0, last_attempt_id=0)
    oldest = machine.begin_transaction().transaction
    machine.begin_transaction()
    for event in WAYS[phase]:
        machine.apply_event(oldest.attempt, event)
    assert oldest.phase is phase
    return machine


@pytest.mark.guarantee("TX-2", "TX-3")
@pytest.mark.parametrize(("phase", "event"), list(product(WAYS, Event)), ids=lambda each: each.name)
def test_every_event_of_the_oldest_has_the_effect_in_the_table_or_none(phase: Phase, event: Event) -> None:
    machine = two_open(phase)
    oldest, behind = machine.open_transactions.values()
    before = (oldest.attempt, behind.attempt)

    instructions = machine.apply_event(oldest.attempt, event)

    after, expected = AFTER.get((phase, event), (phase, []))
    assert (oldest.phase, texts_of(instructions)) == (after, expected)
    assert machine.committed == (1 if after is Phase.COMMITTED else 0)
    assert (1 in machine.open_transactions) == (after is not Phase.COMMITTED)
    replayed = event is Event.FAILED
    assert ((oldest.attempt, behind.attempt) != before) is replayed


@pytest.mark.guarantee("TX-2")
@pytest.mark.parametrize("event", list(Event), ids=lambda each: each.name)
def test_a_processed_transaction_waits_for_earlier_ones_and_only_a_failure_changes_it(event: Event) -> None:
    machine = two_open(Phase.PROCESSING)
    waiting = machine.open_transactions[2]
    machine.apply_event(waiting.attempt, Event.PROCESSED)
    assert waiting.phase is Phase.PROCESSED
    if event is Event.TURN:  # only the machine itself gives this event
        return

    instructions = machine.apply_event(waiting.attempt, event)

    assert texts_of(instructions) == (["process 2"] if event is Event.FAILED else [])
    assert waiting.phase is (Phase.PROCESSING if event is Event.FAILED else Phase.PROCESSED)


@pytest.mark.guarantee("TX-2")
def test_a_commit_phase_begins_only_after_the_commit_before_it() -> None:
    machine = two_open(Phase.COMMITTING)
    oldest, behind = machine.open_transactions.values()
    assert texts_of(machine.apply_event(behind.attempt, Event.PROCESSED)) == []

    assert texts_of(machine.apply_event(oldest.attempt, Event.COMMITTED)) == ["committed 1", "save 2"]
    assert behind.phase is Phase.SAVING


@pytest.mark.guarantee("TX-3")
def test_a_failure_gives_later_transactions_new_attempts_and_leaves_earlier_ones() -> None:
    machine = Machine(committed=6, last_attempt_id=first_attempt_id(2))
    transactions = [machine.begin_transaction().transaction for _ in range(4)]
    before = [transaction.attempt for transaction in transactions]
    machine.apply_event(transactions[3].attempt, Event.PROCESSED)

    instructions = machine.apply_event(transactions[1].attempt, Event.FAILED)

    assert texts_of(instructions) == ["process 8", "process 9", "process 10"]
    after = [transaction.attempt for transaction in transactions]
    assert after == [before[0], *(TransactionAttempt(txid, first_attempt_id(2) + number) for txid, number in ((8, 5), (9, 6), (10, 7)))]
    assert [transaction.failures for transaction in transactions] == [0, 1, 0, 0]
    assert transactions[3].phase is Phase.PROCESSING


@pytest.mark.guarantee("TX-3")
@pytest.mark.parametrize("event", list(Event), ids=lambda each: each.name)
def test_an_event_of_an_old_attempt_has_no_effect(event: Event) -> None:
    machine = two_open(Phase.SAVING)
    old = machine.open_transactions[1].attempt
    machine.apply_event(old, Event.FAILED)

    assert machine.apply_event(old, event) == []
    assert machine.apply_event(TransactionAttempt(99, 1), event) == []
    assert [transaction.phase for transaction in machine.open_transactions.values()] == [Phase.PROCESSING] * 2


@pytest.mark.guarantee("TX-1")
def test_attempt_ids_of_a_later_coordinator_are_greater() -> None:
    first, second = (Machine(committed=0, last_attempt_id=first_attempt_id(epoch)) for epoch in (1, 2))
    old = first.begin_transaction().transaction
    for _ in range(1000):
        first.apply_event(old.attempt, Event.FAILED)

    new = second.begin_transaction().transaction.attempt
    assert (new.txid, new.epoch, new.number) == (1, 2, 1)
    assert new > old.attempt
    assert old.attempt.number == 1001


def test_every_phase_of_the_table_can_be_reached_and_all_but_the_last_left() -> None:
    assert {phase for phase, _ in TABLE} | {Phase.COMMITTED} == {Phase.PROCESSING, *TABLE.values()} == set(Phase)
    assert set(AFTER) < set(TABLE) == {*AFTER, (Phase.PROCESSED, Event.TURN), (Phase.PROCESSED, Event.FAILED)}


# Random sequences, compared with flags


@dataclass
class Flags:
    """Events that a txid got in its newest attempt."""

    attempt_id: int
    processed: bool = False
    saving: bool = False
    saved: bool = False


class FlagModel:
    """Makes the same decisions from flags, after every event anew."""

    def __init__(self) -> None:
        self.committed = self.last_id = 0
        self.open: list[Flags] = []

    def begin(self) -> list[str]:
        self.open.append(Flags(self.new_id()))
        return [f"process {self.committed + len(self.open)}"]

    def new_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def on(self, txid: int, attempt_id: int, event: Event) -> list[str]:
        place = txid - self.committed - 1
        if not 0 <= place < len(self.open) or self.open[place].attempt_id != attempt_id:
            return []
        if event is Event.FAILED:
            self.open[place:] = [Flags(self.new_id()) for _ in self.open[place:]]
            return [f"process {txid + number}" for number in range(len(self.open) - place)]
        flags, instructions = self.open[place], []
        if event is Event.PROCESSED:
            flags.processed = True
        elif event is Event.SAVED and flags.saving and not flags.saved:
            flags.saved = True
            instructions.append(f"commit {txid}")
        elif event is Event.COMMITTED and flags.saved:
            self.open.pop(0)
            self.committed = txid
            instructions.append(f"committed {txid}")
        if self.open and self.open[0].processed and not self.open[0].saving:
            self.open[0].saving = True
            instructions.append(f"save {self.committed + 1}")
        return instructions


@pytest.mark.guarantee("TX-2", "TX-3")
@pytest.mark.parametrize("seed", range(60))
def test_in_any_sequence_it_decides_like_a_model_of_flags(seed: int) -> None:
    draws = random.Random(seed)
    machine, model = Machine(committed=0, last_attempt_id=0), FlagModel()
    told_of: list[TransactionAttempt] = []
    most_open, troubles = draws.randint(1, 8), draws.choice([0.0, 0.05, 0.3])
    order: list[int] = []
    for _ in range(1500):
        if len(machine.open_transactions) < most_open and (not machine.open_transactions or draws.random() < 0.3):
            instructions, expected = [machine.begin_transaction()], model.begin()
        else:
            live = [transaction.attempt for transaction in machine.open_transactions.values()]
            attempt = draws.choice(told_of if draws.random() < 0.1 else live)
            event = Event.FAILED if draws.random() < troubles else draws.choice([Event.PROCESSED, Event.SAVED, Event.COMMITTED])
            instructions, expected = machine.apply_event(attempt, event), model.on(*attempt, event)
        assert texts_of(instructions) == expected
        told_of += [instruction.transaction.attempt for instruction in instructions if instruction.kind == "process"]
        order += [instruction.transaction.txid for instruction in instructions if instruction.kind == "committed"]
        assert machine.committed == model.committed
        assert [tuple(each.attempt) for each in machine.open_transactions.values()] == [
            (model.committed + 1 + place, flags.attempt_id) for place, flags in enumerate(model.open)
        ]
        in_commit = [each.txid for each in machine.open_transactions.values() if each.phase in (Phase.SAVING, Phase.COMMITTING)]
        assert in_commit in ([], [machine.committed + 1])
    assert order == list(range(1, len(order) + 1))
    assert order
    assert len({attempt.attempt_id for attempt in told_of}) == len(told_of)
