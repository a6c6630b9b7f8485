"""State machine of the transactions, as a table (TX-2, TX-3).

The machine uses no clock, no store and no tuples. The coordinator applies events, and carries out the instructions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

from engine.transactional.attempt import TransactionAttempt


class Phase(Enum):
    """Phases of a transaction."""

    PROCESSING = "processing"
    PROCESSED = "processed"
    SAVING = "saving"
    COMMITTING = "committing"
    COMMITTED = "committed"

    __hash__ = object.__hash__  # for speed: Enum.__hash__ is a Python function, and each event looks into the tables below


class Event(Enum):
    """Events of a transaction."""

    PROCESSED = "its processing tree is acked"
    TURN = "every earlier one is committed"
    SAVED = "its definition is durable"
    COMMITTED = "its commit tree is acked"
    FAILED = "one of its trees failed, or an earlier transaction did"

    __hash__ = object.__hash__  # as for Phase


TABLE: Final[Mapping[tuple[Phase, Event], Phase]] = {
    (Phase.PROCESSING, Event.PROCESSED): Phase.PROCESSED,
    (Phase.PROCESSING, Event.FAILED): Phase.PROCESSING,
    (Phase.PROCESSED, Event.TURN): Phase.SAVING,
    (Phase.PROCESSED, Event.FAILED): Phase.PROCESSING,
    (Phase.SAVING, Event.SAVED): Phase.COMMITTING,
    (Phase.SAVING, Event.FAILED): Phase.PROCESSING,
    (Phase.COMMITTING, Event.COMMITTED): Phase.COMMITTED,
    (Phase.COMMITTING, Event.FAILED): Phase.PROCESSING,
}
"""All transitions of one transaction. Any other event is ignored: it is a late verdict on an old attempt."""

InstructionKind: TypeAlias = Literal["process", "save", "commit", "committed"]
INSTRUCTIONS: Final[Mapping[Phase, InstructionKind]] = {
    Phase.PROCESSING: "process",
    Phase.SAVING: "save",
    Phase.COMMITTING: "commit",
    Phase.COMMITTED: "committed",
}
"""Instruction that follows the entry into a phase.

The four instructions send the batch, save its definition, send its commit, and forget it.
"""


@dataclass(slots=True)
class Transaction:
    """A txid that is not committed, with its newest attempt and its phase."""

    attempt: TransactionAttempt
    phase: Phase = Phase.PROCESSING
    failures: int = 0
    """Number of its failed attempts."""
    why: str = ""
    """Why the last one failed."""

    @property
    def failing(self) -> str:
        """The number of failed attempts with the reason of the last one, as text. Empty if none has failed."""
        times = f"{self.failures:,} time{'s' * (self.failures != 1)}"
        return f"batch {self.txid} failed {times} and is not committed ({self.why})" if self.failures else ""

    @property
    def txid(self) -> int:
        """Transaction id: 1, 2, 3, …"""
        return self.attempt.txid


class Instruction(NamedTuple):
    """One action of the coordinator. The coordinator carries out instructions in order."""

    kind: InstructionKind
    transaction: Transaction


class Machine:
    """The open transactions, which have consecutive txids. The oldest one is first.

    >>> machine = Machine(committed=0, last_attempt_id=0)
    >>> first = machine.begin_transaction()
    >>> [instruction.kind for instruction in machine.apply_event(first.transaction.attempt, Event.PROCESSED)]
    ['save']
    """

    def __init__(self, *, committed: int, last_attempt_id: int) -> None:
        """committed: the newest committed txid. last_attempt_id: the new attempt ids are greater than this."""
        self.committed = committed
        self._last_attempt_id = last_attempt_id
        self.open_transactions: Final[dict[int, Transaction]] = {}
        """By txid, ascending from `committed` + 1 without a gap."""

    def begin_transaction(self) -> Instruction:
        """Open the next txid."""
        txid = self.committed + len(self.open_transactions) + 1
        transaction = self.open_transactions[txid] = Transaction(self._new_attempt(txid))
        return Instruction("process", transaction)

    def apply_event(self, attempt: TransactionAttempt, event: Event) -> list[Instruction]:
        """Apply an event of an attempt, and return the instructions that follow. Events of old attempts are ignored."""
        transaction = self.open_transactions.get(attempt.txid)
        if transaction is None or transaction.attempt != attempt or (transaction.phase, event) not in TABLE:
            return []
        if event is Event.FAILED:
            return self._fail_from(transaction)
        instructions = self._enter(transaction, event)
        if transaction.phase is Phase.COMMITTED:
            del self.open_transactions[transaction.txid]
            self.committed = transaction.txid
        return [*instructions, *self._give_turn()]

    def _enter(self, transaction: Transaction, event: Event) -> list[Instruction]:
        transaction.phase = TABLE[transaction.phase, event]
        kind = INSTRUCTIONS.get(transaction.phase)
        return [] if kind is None else [Instruction(kind, transaction)]

    def _give_turn(self) -> list[Instruction]:
        """Begin the commit phase of the oldest transaction, if it is processed (TX-2)."""
        oldest = next(iter(self.open_transactions.values()), None)
        return self._enter(oldest, Event.TURN) if oldest is not None and oldest.phase is Phase.PROCESSED else []

    def _fail_from(self, failed: Transaction) -> list[Instruction]:
        """Begin new attempts of a failed transaction and of all later ones, in order (TX-3)."""
        failed.failures += 1
        instructions = []
        for transaction in self.open_transactions.values():
            if transaction.txid >= failed.txid:
                transaction.attempt = self._new_attempt(transaction.txid)
                instructions += self._enter(transaction, Event.FAILED)
        return instructions

    def _new_attempt(self, txid: int) -> TransactionAttempt:
        self._last_attempt_id += 1
        return TransactionAttempt(txid, self._last_attempt_id)
