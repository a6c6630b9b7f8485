"""The machine of transactions, as a table (TX-2, TX-3): no clock, no store, no tuples; the coordinator is its shell."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

from engine.transactional.attempt import TransactionAttempt


class Phase(Enum):
    """How far a transaction is."""

    PROCESSING = "processing"
    PROCESSED = "processed"
    SAVING = "saving"
    COMMITTING = "committing"
    COMMITTED = "committed"

    __hash__ = object.__hash__  # each step of each batch looks into the tables below, and Enum's own is a call of Python


class Event(Enum):
    """What may happen to a transaction."""

    PROCESSED = "its processing tree is acked"
    TURN = "every earlier one is committed"
    SAVED = "what defines it is durable"
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
"""The whole machine, for one transaction. What is not in it is ignored: a verdict that comes late, on an attempt that is no more."""

InstructionKind: TypeAlias = Literal["process", "save", "commit", "committed"]
INSTRUCTIONS: Final[Mapping[Phase, InstructionKind]] = {
    Phase.PROCESSING: "process",
    Phase.SAVING: "save",
    Phase.COMMITTING: "commit",
    Phase.COMMITTED: "committed",
}
"""What the shell does when a transaction enters a phase: send its batch, write what defines it, send its commit, forget it."""


@dataclass(slots=True)
class Transaction:
    """A txid that is not committed: its newest attempt, and how far that is."""

    attempt: TransactionAttempt
    phase: Phase = Phase.PROCESSING
    failures: int = 0
    """Attempts of it that have failed."""

    @property
    def txid(self) -> int:
        """Its transaction id."""
        return self.attempt.txid


class Instruction(NamedTuple):
    """What the shell is to do, in order."""

    kind: InstructionKind
    transaction: Transaction


class Machine:
    """The transactions that are open: txids in a row, the oldest first.

    >>> machine = Machine(committed=0, last_attempt_id=0)
    >>> first = machine.begin_transaction()
    >>> [instruction.kind for instruction in machine.apply_event(first.transaction.attempt, Event.PROCESSED)]
    ['save']
    """

    def __init__(self, *, committed: int, last_attempt_id: int) -> None:
        """Take the newest txid that is committed, and the attempt id below all that this machine will give."""
        self.committed = committed
        self._last_attempt_id = last_attempt_id
        self.open_transactions: Final[dict[int, Transaction]] = {}
        """By txid, ascending without a gap from `committed` + 1 on."""

    def begin_transaction(self) -> Instruction:
        """Open the next txid."""
        txid = self.committed + len(self.open_transactions) + 1
        transaction = self.open_transactions[txid] = Transaction(self._new_attempt(txid))
        return Instruction("process", transaction)

    def apply_event(self, attempt: TransactionAttempt, event: Event) -> list[Instruction]:
        """Take in an event of an attempt; one of an attempt that is no more says nothing."""
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
        """Let the oldest begin its commit phase, if it is processed (TX-2)."""
        oldest = next(iter(self.open_transactions.values()), None)
        return self._enter(oldest, Event.TURN) if oldest is not None and oldest.phase is Phase.PROCESSED else []

    def _fail_from(self, failed: Transaction) -> list[Instruction]:
        """Give a new attempt to a transaction and to every later one, in order (TX-3)."""
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
