"""`RowKeeper`: stores the letters of rows that are given up, and shows what a batch waits for that never succeeds (TX-13)."""

from collections import Counter
from typing import Final

from engine.api import TaskContext
from engine.dead_letters import ERROR_IN_VIEWS, DeadLetter, DeadLettersSnapshot, StoredLetters, clipped
from engine.errors import Failure, FatalError, UsageError
from engine.log import EngineLogger
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.given_up import GivenUpRows, RowPolicy
from engine.transactional.open_batches import Record
from engine.waits import Wait, waiting_for

LOGGER: Final = EngineLogger("engine.transactional")


class RowKeeper:
    """The failed rows of an instance of the coordinator, and the dead letters of its topology."""

    def __init__(self, given_up: GivenUpRows, letters: StoredLetters, context: TaskContext) -> None:
        """given_up: decides. letters: those that are stored. context: of the coordinator."""
        self.given_up = given_up
        self._letters = letters
        self._context = context
        self._wait: Wait | None = None
        """While a batch fails and no row of it may be given up: what for."""
        self._new: dict[int, list[DeadLetter]] = {}
        """Letters of txids whose commit phase has begun."""
        self._rows_given_up = 0

    def restore(self, record: Record, policy: RowPolicy) -> None:
        """Continue with a txid whose commit phase had begun when an earlier run ended, with all of its rows or without some.

        Raises FatalError if the run cannot leave out the rows that the txid lacks.
        """
        txid = record.committed + 1
        letters = self._letters.of_txid(txid)
        if record.next_output is None or self.given_up.replays_differ:
            return
        names = sorted({letter.component_id for letter in letters})
        gone = [name for name in names if not self._has_component(name)]
        if gone or (letters and not policy.leaves_out):
            why = f"the topology has no bolt {gone[0]!r} any more" if gone else "a topology on Spark cannot do so"
            raise FatalError(
                f"batch {txid} of {self._context.topology_name!r} began to commit without {len(letters):,} of its rows, and this run must "
                f"leave them out too, but {why}",
                hint="Run the topology once as it was, until the batch is committed.",
            )
        self.given_up.restore(txid, letters)

    def _has_component(self, name: str) -> bool:
        try:
            return bool(self._context.task_ids(name))
        except UsageError:
            return False

    def judge(self, attempt: TransactionAttempt, failure: Failure) -> None:
        """Decide what a failed attempt means for its rows, and say what the run waits for if it must be tried for ever."""
        judgement = self.given_up.judge(attempt, failure, room=self._letters.room)
        if judgement.given_up:
            rows = f"{judgement.given_up:,} row{'s' * (judgement.given_up != 1)}"
            LOGGER.warning("batch %d of %r: %s failed too often, and will be left out: %s.", attempt.txid, self._context.topology_name,
                           rows, failure.describe().rstrip("."))  # fmt: skip
        if judgement.stuck != (None if self._wait is None else self._wait.what):
            self.end_wait()
            if judgement.stuck:
                self._wait = waiting_for(judgement.stuck).begun()

    def begin_commit(self, attempt: TransactionAttempt, now: float) -> dict[str, object]:
        """Return the changes of the dead letters that become durable with the definition of a batch."""
        letters = self.given_up.letters(attempt, now)
        self.given_up.begin_commit(attempt.txid)
        self._new[attempt.txid] = letters
        return self._letters.replace(attempt.txid, letters)

    def note_commit(self, txid: int) -> None:
        """Count and log the rows that a committed batch lacks."""
        self.end_wait()
        self.given_up.forget(txid)
        letters = self._new.pop(txid, [])
        if letters:
            self._rows_given_up += len(letters)
            by_component = Counter(letter.component_id for letter in letters)
            told = ", ".join(f"{count:,} of {component!r}" for component, count in sorted(by_component.items()))
            first = letters[0].error.partition("\n")[0]
            LOGGER.warning("batch %d of %r is committed without %s (%s). They are dead letters now: python -m engine dead-letters.",
                           txid, self._context.topology_name, told, clipped(first, ERROR_IN_VIEWS))  # fmt: skip

    def snapshot(self) -> DeadLettersSnapshot:
        """Return the number of letters, and the newest one."""
        last = self._letters.last
        component_id, error = (None, None) if last is None else (last.component_id, last.error)
        return DeadLettersSnapshot(len(self._letters), self._rows_given_up, component_id, error)

    def end_wait(self) -> None:
        """End the wait of a batch that fails again and again. No effect if there is none."""
        if self._wait is not None:
            self._wait.end()
            self._wait = None
