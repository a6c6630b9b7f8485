"""The machine of checkpoints, as a table (CP-3): no clock, no store, no tuples; the checkpoint spout is its shell.

What is saved is a `Record`; what is under way is a `Step`. Each transition is saved before its step's barrier is sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

Phase: TypeAlias = Literal["committed", "preparing", "committing"]
Action: TypeAlias = Literal["initstate", "prepare", "commit", "rollback"]

MOST_COUNTED: Final = 128
"""Committed deltas that no fold has taken, by txid: so many a record remembers, and a task must have folded older ones."""


class Step(Enum):
    """What is under way: a barrier on its way through the topology, or nothing."""

    IDLE = "idle"
    INITIALISE = "initialise"
    PREPARE = "prepare"
    COMMIT = "commit"
    COMMIT_AGAIN = "commit again"
    ROLL_BACK = "roll back"


class Event(Enum):
    """What may happen to the machine."""

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
"""What the barrier of a step asks of the tasks."""


class Transition(NamedTuple):
    """Where an event leads: the phase that is saved, how the txid moves, and the step that begins."""

    phase: Phase
    moves: int
    step: Step


TABLE: Final[Mapping[tuple[Phase, Step, Event], Transition]] = {
    ("committed", Step.IDLE, Event.BEGIN): Transition("committed", 0, Step.INITIALISE),
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
"""The whole machine. What is not in it cannot happen, or is ignored: a verdict on a barrier of an older round."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is saved: the phase, its txid, the round of the last barrier, and which staged deltas count."""

    phase: Phase = "committed"
    txid: int = -1
    round: int = 0
    prepared_round: int = 0
    """The round of the PREPARE whose deltas count once the phase is `committing`."""
    counted: tuple[tuple[int, int], ...] = ()
    """(txid, round) of the latest committed deltas, oldest first."""

    def counts(self, txid: int, round_: int) -> bool:
        """Tell whether what was staged for this txid and round is committed."""
        return (txid, round_) in self.counted


class Machine:
    """Where a run's checkpoints are. `on(event)` moves it; the caller saves `record`, then sends the barrier of `step`."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.step = Step.IDLE

    def on(self, event: Event) -> bool:
        """Take an event; False, and nothing changes, where it means nothing now."""
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
        """True from a failure, or the beginning, until every task is initialised: the user's spouts are not polled."""
        return self.step in (Step.INITIALISE, Step.COMMIT_AGAIN, Step.ROLL_BACK)

    @property
    def action(self) -> Action | None:
        """What the barrier under way asks of the tasks."""
        return ACTIONS.get(self.step)


def settled_at_start(record: Record) -> Record:
    """Return what a saved record comes to before any task runs: an interrupted commit counts, an interrupted prepare never was."""
    if record.phase == "preparing":
        return replace(record, phase="committed", txid=record.txid - 1)
    return replace(record, phase="committed")
