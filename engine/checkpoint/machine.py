"""State machine of the checkpoints, written as a table (CP-3).

The machine uses no clock, no store and no tuples. The checkpoint spout applies the events.

The `Record` is durable, and the `Step` in progress is not. The record of each transition is saved before the barrier of its step is sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

Phase: TypeAlias = Literal["committed", "preparing", "committing"]
Action: TypeAlias = Literal["initstate", "prepare", "commit", "rollback"]

MOST_COUNTED: Final = 128
"""Maximum number of committed deltas that a record lists. Tasks must have folded all older deltas."""


class Step(Enum):
    """Step in progress. In every step except IDLE, a barrier flows through the topology."""

    IDLE = "idle"
    INITIALISE = "initialise"
    PREPARE = "prepare"
    COMMIT = "commit"
    COMMIT_AGAIN = "commit again"
    ROLL_BACK = "roll back"


class Event(Enum):
    """Events of the machine."""

    BEGIN = "the run begins"
    DUE = "a checkpoint is due"
    DONE = "every task has acked the step"
    FAILED = "the step failed or timed out, or a task died"


ACTIONS: Final[Mapping[Step, Action]] = {
    Step.INITIALISE: "initstate",
    Step.PREPARE: "prepare",
    Step.COMMIT: "commit",
    Step.COMMIT_AGAIN: "commit",
    Step.ROLL_BACK: "rollback",
}
"""Action of the tasks at the barrier of each step."""


class Transition(NamedTuple):
    """Result of an event, with the phase to save, the change of the txid, and the step that begins."""

    phase: Phase
    moves: int
    step: Step


TABLE: Final[Mapping[tuple[Phase, Step, Event], Transition]] = {
    ("committed", Step.IDLE, Event.BEGIN): Transition("committed", 0, Step.INITIALISE),
    ("committing", Step.IDLE, Event.BEGIN): Transition("committing", 0, Step.COMMIT_AGAIN),
    ("committed", Step.INITIALISE, Event.DONE): Transition("committed", 0, Step.IDLE),
    ("committed", Step.INITIALISE, Event.FAILED): Transition("committed", 0, Step.INITIALISE),
    ("committed", Step.IDLE, Event.DUE): Transition("preparing", +1, Step.PREPARE),
    ("committed", Step.IDLE, Event.FAILED): Transition("committed", 0, Step.INITIALISE),
    ("preparing", Step.PREPARE, Event.DONE): Transition("committing", 0, Step.COMMIT),
    ("preparing", Step.PREPARE, Event.FAILED): Transition("preparing", 0, Step.ROLL_BACK),
    ("preparing", Step.ROLL_BACK, Event.DONE): Transition("committed", -1, Step.INITIALISE),
    ("preparing", Step.ROLL_BACK, Event.FAILED): Transition("preparing", 0, Step.ROLL_BACK),
    ("committing", Step.COMMIT, Event.DONE): Transition("committed", 0, Step.IDLE),
    ("committing", Step.COMMIT, Event.FAILED): Transition("committing", 0, Step.COMMIT_AGAIN),
    ("committing", Step.COMMIT_AGAIN, Event.DONE): Transition("committed", 0, Step.INITIALISE),
    ("committing", Step.COMMIT_AGAIN, Event.FAILED): Transition("committing", 0, Step.COMMIT_AGAIN),
}
"""All transitions. Other events are impossible or ignored, for example the result of an older round."""


@dataclass(frozen=True, slots=True)
class Record:
    """Saved record, with the phase and its txid, the round of the last barrier, and the committed deltas."""

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
    """State of a run's checkpoints. After each `apply_event` the caller saves `record`, then sends the barrier of `step`."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.step = Step.IDLE

    def apply_event(self, event: Event) -> bool:
        """Apply an event. Return False, and change nothing, if the event has no transition now."""
        transition = TABLE.get((self.record.phase, self.step, event))
        if transition is None:
            return False
        before = self.record
        sends = transition.step is not Step.IDLE
        round_ = before.round + 1 if sends else before.round
        record = replace(before, phase=transition.phase, txid=before.txid + transition.moves, round=round_)
        if transition.step is Step.PREPARE:
            record = replace(record, prepared_round=round_)
        if transition.step is Step.COMMIT:
            record = replace(record, counted=(*before.counted, (record.txid, before.prepared_round))[-MOST_COUNTED:])
        self.record, self.step = record, transition.step
        return True

    @property
    def recovers(self) -> bool:
        """True from a failure or the start until every task is initialised. During this time the user's spouts are not polled."""
        return self.step in (Step.INITIALISE, Step.COMMIT_AGAIN, Step.ROLL_BACK)

    @property
    def action(self) -> Action | None:
        """Action of the tasks at the current barrier. None while idle."""
        return ACTIONS.get(self.step)


def settled_at_start(record: Record) -> Record:
    """Return the record with which a run starts. An interrupted prepare is dropped.

    An interrupted commit counts, and the run repeats it, because `pre_commit` of some tasks may not have succeeded (CP-4).
    """
    if record.phase == "preparing":
        return replace(record, phase="committed", txid=record.decided_txid)
    return record
