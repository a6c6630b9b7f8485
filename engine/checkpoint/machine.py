"""State machine of the checkpoints, written as a table (CP-3).

The machine uses no clock, no store and no tuples. The checkpoint spout applies the events.

The `Record` is durable, and the `Step` in progress is not. The record of each transition is saved before its step begins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

Phase: TypeAlias = Literal["committed", "preparing", "committing"]

MOST_COUNTED: Final = 128
"""Maximum number of committed deltas that a record lists. Tasks must have folded all older deltas."""


class Step(Enum):
    """Step in progress."""

    IDLE = "idle"
    RECOVER = "recover"
    PREPARE = "prepare"
    COMMIT = "commit"


class Event(Enum):
    """Events of the machine."""

    BEGIN = "the run begins"
    DUE = "a checkpoint is due"
    DONE = "every task has done the step"
    FAILED = "the step failed or timed out, or a task died"


class Transition(NamedTuple):
    """Result of an event, with the phase to save, the change of the txid, and the step that begins."""

    phase: Phase
    moves: int
    step: Step


TABLE: Final[Mapping[tuple[Phase, Step, Event], Transition]] = {
    ("committed", Step.IDLE, Event.BEGIN): Transition("committed", 0, Step.RECOVER),
    ("committing", Step.IDLE, Event.BEGIN): Transition("committing", 0, Step.RECOVER),
    ("committed", Step.IDLE, Event.DUE): Transition("preparing", +1, Step.PREPARE),
    ("committed", Step.IDLE, Event.FAILED): Transition("committed", 0, Step.RECOVER),
    ("preparing", Step.PREPARE, Event.DONE): Transition("committing", 0, Step.COMMIT),
    ("preparing", Step.PREPARE, Event.FAILED): Transition("committed", -1, Step.RECOVER),
    ("committing", Step.COMMIT, Event.DONE): Transition("committed", 0, Step.IDLE),
    ("committing", Step.COMMIT, Event.FAILED): Transition("committing", 0, Step.RECOVER),
    ("committed", Step.RECOVER, Event.DONE): Transition("committed", 0, Step.IDLE),
    ("committing", Step.RECOVER, Event.DONE): Transition("committed", 0, Step.IDLE),
    ("committed", Step.RECOVER, Event.FAILED): Transition("committed", 0, Step.RECOVER),
    ("committing", Step.RECOVER, Event.FAILED): Transition("committing", 0, Step.RECOVER),
}
"""All transitions. Other events are impossible or ignored, for example the result of an older round.

There is one recovery for every failure. A PREPARE that failed never counts, so its txid is free again at once. A COMMIT that failed
counts, and the recovery completes it.
"""


@dataclass(frozen=True, slots=True)
class Record:
    """Saved record, with the phase and its txid, the round of the last step, and the committed deltas."""

    phase: Phase = "committed"
    txid: int = -1
    round: int = 0
    prepared_round: int = 0
    """Round of the PREPARE. The deltas of this round count as committed once the phase is `committing`."""
    counted: tuple[tuple[int, int], ...] = ()
    """(txid, round) of the latest committed deltas, oldest first."""

    @property
    def decided_txid(self) -> int:
        """The newest txid whose changes count, although tasks may still have to execute its COMMIT. -1: none."""
        return self.txid - (self.phase == "preparing")

    def is_committed(self, txid: int, round_: int) -> bool:
        """Tell whether the deltas of this txid and round are committed."""
        return (txid, round_) in self.counted


class Machine:
    """State of a run's checkpoints. After each `apply_event` the caller saves `record`, then carries out `step`."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.step = Step.IDLE

    def apply_event(self, event: Event) -> bool:
        """Apply an event. Return False, and change nothing, if the event has no transition now."""
        transition = TABLE.get((self.record.phase, self.step, event))
        if transition is None:
            return False
        before = self.record
        round_ = before.round + (transition.step is not Step.IDLE)
        record = replace(before, phase=transition.phase, txid=before.txid + transition.moves, round=round_)
        if transition.step is Step.PREPARE:
            record = replace(record, prepared_round=round_)
        if transition.step is Step.COMMIT:
            record = replace(record, counted=(*before.counted, (record.txid, before.prepared_round))[-MOST_COUNTED:])
        self.record, self.step = record, transition.step
        return True

    @property
    def recovers(self) -> bool:
        """True from a failure or the start until every task is back at the last commit. The user's spouts are not polled meanwhile."""
        return self.step is Step.RECOVER


def settled_at_start(record: Record) -> Record:
    """Return the record with which a run starts. An interrupted prepare is dropped.

    An interrupted commit counts, and the run repeats it, because `pre_commit` of some tasks may not have succeeded (CP-4).
    """
    if record.phase == "preparing":
        return replace(record, phase="committed", txid=record.decided_txid)
    return record
