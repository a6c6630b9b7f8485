"""Coordinator of a transactional topology: a spout with one task that carries out the instructions of a state machine (TX-2 to TX-4)."""

import asyncio
import inspect
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, assert_never, cast

from engine.api import Fields, OutputFields, Spout, SpoutExhausted
from engine.backoff import Backoff
from engine.dead_letters import ENTRY as LETTERS_ENTRY
from engine.errors import TIMEOUT, Failure, FatalError
from engine.log import EngineLogger
from engine.maybe_await import discard_awaitables
from engine.metrics.user_metrics import Counter
from engine.names import BATCH_STREAM, COMMIT_STREAM, ROWS_STREAM
from engine.topology.task_port import SpoutPortUser
from engine.transactional.admission import Admission, AdmissionGate
from engine.transactional.attempt import TransactionAttempt, first_attempt_id
from engine.transactional.attempt_rows import RowReport
from engine.transactional.forgotten_partitions import ForgottenPartitions
from engine.transactional.given_up import GivenUpRows, RowPolicy
from engine.transactional.machine import Event, Instruction, Machine, Phase, Transaction
from engine.transactional.open_batches import BatchOutput, EmitRequest, OpenBatches
from engine.transactional.row_keeper import RowKeeper
from engine.transactional.spout_adapters import Answer, NoBatch, coordinator_adapter, has_partitions, replays_differ
from engine.transactional.spouts import AnySpout
from engine.transactional.status import ENTRY, TransactionsSnapshot
from engine.transactional.transactional_state import TransactionalState
from engine.undone import Undone
from engine.waits import Wait, waiting_for

BATCH_FIELDS: Final = Fields(*EmitRequest._fields)
COMMIT_FIELDS: Final = Fields("attempt")
ROWS_FIELDS: Final = Fields("attempt", "orders")
BACKOFF: Final = Backoff(0.1, 5.0)
"""Pauses before the replay of batches that fail repeatedly. The first replay is immediate."""
LOGGER: Final = EngineLogger("engine.transactional")


class TreeId(NamedTuple):
    """Message id of a tree of an attempt."""

    attempt: TransactionAttempt
    tree: Literal["processing", "commit", "rows"]

    def __repr__(self) -> str:
        return f"batch {self.attempt}, {self.tree}"


class Coordinator(Spout, SpoutPortUser):
    """Begins batches when it is polled, and advances open ones by the acks and failures of their trees.

    While deactivated or draining it is not polled, so open batches finish, and no new one begins (RUN-2, RUN-3).
    """

    output_fields: OutputFields = MappingProxyType({BATCH_STREAM: BATCH_FIELDS, COMMIT_STREAM: COMMIT_FIELDS, ROWS_STREAM: ROWS_FIELDS})

    def __init__(
        self,
        spout: AnySpout,
        state: TransactionalState,
        admissions: Mapping[str, Admission],
        *,
        emitters: int,
        most_open: int,
        row_policy: RowPolicy,
    ) -> None:
        """spout: source of the batches. state: durable store of their metadata. admissions: backpressure, by component id.

        emitters: number of emitter tasks. most_open: largest number of open batches. row_policy: for rows that fail.
        """
        self._spout = spout
        self._state = state
        self._admissions = admissions
        self._emitters = emitters
        self._most_open = most_open
        self._row_policy = row_policy
        self._machine: Machine | None = None
        self._row_keeper: RowKeeper | None = None

    async def open(self) -> None:
        self._commit_wait: Wait | None = None
        self._admission_gate = AdmissionGate(self._admissions, self.context)
        epoch, record, letters = await self._state.claim()
        self._machine = Machine(committed=record.committed, last_attempt_id=first_attempt_id(epoch))
        differ, partitioned = replays_differ(self._spout), has_partitions(self._spout)
        self._batches = OpenBatches(record, emitters=self._emitters, replays_differ=differ, partitioned=partitioned)
        rows = self._row_keeper = RowKeeper(
            GivenUpRows(self._row_policy.max_retries, self.context.task_ids, replays_differ=differ), letters, self.context
        )
        rows.restore(record, self._row_policy)
        self._adapter = coordinator_adapter(self._spout)
        self._adapter.wrapped.context = self.context
        self._saved_txid = record.committed
        self._answer: Answer | None = None
        self._is_asking = self._is_exhausted = False
        self._ask_at = 0.0
        self._failures_since_commit = 0
        self._paused_txids: set[int] = set()
        """Failed txids that wait for the end of a pause."""
        self._awaiting_replies: set[int] = set()
        """Txids that wait until the emitters have reported the end of the previous batch."""
        self._replay_aio_task: asyncio.Task[None] | None = None
        self._forgotten = ForgottenPartitions(self._adapter, self._batches, self.context, self.port)
        self._begin_times: dict[int, float] = {}
        self._open_metrics()
        self.port.on_reply(self._take_reply)
        self.port.run.show_in_snapshot(ENTRY, self.context.task_id, self._snapshot)
        self.port.run.show_in_snapshot(LETTERS_ENTRY, self.context.task_id, rows.snapshot)
        await self._admission_gate.open()
        opened = self._adapter.wrapped.open()
        if opened is not None:
            await opened

    def _open_metrics(self) -> None:
        self._committed_counter = cast(Counter, self.context.counter("transactions_committed"))
        self._failed_counter = cast(Counter, self.context.counter("transactions_failed"))
        self._open_gauge = self.context.gauge("transactions_open")
        self._txid_gauge = self.context.gauge("transaction_committed_txid")
        self._txid_gauge.set(self._saved_txid)
        self._secs_histogram = self.context.histogram("transaction_secs")

    def _snapshot(self) -> TransactionsSnapshot:
        """Return the state of the transactions, also after the coordinator is closed."""
        open_txids: dict[str, tuple[int, ...]] = {}
        for txid, transaction in self._live_machine.open_transactions.items():
            phase = transaction.phase.value
            open_txids[phase] = (*open_txids.get(phase, ()), txid)
        committed, failed = int(self._committed_counter.read()), int(self._failed_counter.read())
        return TransactionsSnapshot(self.context.component_id, self._live_machine.committed, committed, failed, open_txids)

    @property
    def is_busy(self) -> bool:
        """True while a batch is open, even if it has no open tree."""
        return self._machine is not None and bool(self._machine.open_transactions)

    def undone(self, open_trees: int) -> Undone:
        """Return the batches that have begun and not committed."""
        if self._machine is None or not self._machine.open_transactions:
            return Undone()
        oldest = next(iter(self._machine.open_transactions.values()))
        return Undone(len(self._machine.open_transactions), failing=oldest.failing)

    @property
    def progress(self) -> int:
        """The newest committed txid. An instance that dies before its next commit made no progress."""
        return 0 if self._machine is None else self._machine.committed

    # Beginning batches

    def next_tuple(self) -> None:
        """Begin batches up to `most_open`, while the source has some."""
        while self._may_begin():
            txid = self._live_machine.committed + len(self._live_machine.open_transactions) + 1
            if not self._batches.begin_stored_batch(txid):
                answer = self._ask(txid)
                if answer is NoBatch.NOT_READY or answer is NoBatch.EXHAUSTED:
                    return
                if not self._admission_gate.may_begin(txid):
                    self._answer = answer
                    return
                self._batches.begin_batch(txid, answer)
            self._begin_times[txid] = self.context.clock.now()
            self._process(self._live_machine.begin_transaction().transaction, needs_all_replies=False)

    def _may_begin(self) -> bool:
        open_count = len(self._live_machine.open_transactions)
        if (
            open_count >= self._most_open
            or self._is_asking
            or self._paused_txids
            or self._awaiting_replies
            or (open_count and self._is_exhausted)
        ):
            return False
        return self.context.clock.now() >= self._ask_at

    def _ask(self, txid: int) -> Answer:
        """Ask the source for another batch. Raises SpoutExhausted if it is exhausted and no batch is open."""
        answer, self._answer = self._answer, None
        if answer is None:
            answer = self._adapter.next_batch(txid, self._batches.newest_metadata, self._batches.positions)
        if inspect.isawaitable(answer):
            self._is_asking = True
            waiting, asked = self.context.create_task(self._wait_for(answer)), self._adapter.asked
            waiting.add_done_callback(lambda _: discard_awaitables(*asked))
            return NoBatch.NOT_READY
        self._is_exhausted = answer is NoBatch.EXHAUSTED
        if answer is NoBatch.NOT_READY:
            self._ask_later()
        elif self._is_exhausted and not self._live_machine.open_transactions:
            raise SpoutExhausted
        return answer

    async def _wait_for(self, answer: Awaitable[Answer]) -> None:
        """Keep the answer until the next poll, because a drain may have begun."""
        try:
            self._answer = await answer
        finally:
            self._is_asking = False
        self.context.wake()

    def _ask_later(self) -> None:
        """Ask the source again after the interval, because it has no tuples now."""
        interval = self.context.config.batch_interval_ms / 1000
        self._ask_at = self.context.clock.now() + interval
        asyncio.get_running_loop().call_later(interval, self.context.wake)

    # Events of open batches

    def _take_reply(self, message_id: object, task: int, output: BatchOutput | RowReport) -> None:
        """Handle the reply of an emitter, which has emitted its output, or of a bolt with failed or left-out rows."""
        assert isinstance(message_id, TreeId)
        transaction = self._live_machine.open_transactions.get(message_id.attempt.txid)
        if transaction is None or transaction.attempt != message_id.attempt:
            return
        if isinstance(output, RowReport):
            self._rows.given_up.take_report(message_id.attempt, task, output, in_commit=message_id.tree == "commit")
        else:
            self._batches.note_output(transaction.txid, task, output)
            for txid in sorted(self._awaiting_replies):
                self._process(self._live_machine.open_transactions[txid], needs_all_replies=True)

    def ack(self, message_id: object) -> None:
        """Handle the ack of a tree of an attempt."""
        assert isinstance(message_id, TreeId)
        attempt, tree = message_id
        if tree == "rows":
            return
        failure = self._rows.given_up.failure(attempt, in_commit=tree == "commit")
        if failure is not None:  # the attempt ran on to its end, so that all of its failing rows are known
            self._fail(message_id, failure)
            return
        if tree == "commit":
            self._end_commit_wait()
        elif self._lives(attempt, Phase.PROCESSING):
            self._batches.define_batch(attempt.txid)
            if self._batches.is_empty(attempt.txid):
                self._ask_later()
        self._carry_out(self._live_machine.apply_event(attempt, Event.PROCESSED if tree == "processing" else Event.COMMITTED))

    def _end_commit_wait(self) -> None:
        if self._commit_wait is not None:
            self._commit_wait.end()

    def on_drop(self) -> None:
        """End the waits of the instance."""
        self._end_commit_wait()
        if self._row_keeper is not None:
            self._row_keeper.end_wait()
        self._admission_gate.end_wait()

    def _lives(self, attempt: TransactionAttempt, phase: Phase) -> bool:
        transaction = self._live_machine.open_transactions.get(attempt.txid)
        return transaction is not None and transaction.attempt == attempt and transaction.phase is phase

    def fail(self, message_id: object) -> None:
        """Replay a failed batch and all later ones (TX-3)."""
        assert isinstance(message_id, TreeId)
        if message_id.tree != "rows":
            self._fail(message_id, self.context.failure)

    def _fail(self, message_id: TreeId, failure: Failure | None) -> None:
        if message_id.tree == "commit":
            self._end_commit_wait()
        instructions = self._live_machine.apply_event(message_id.attempt, Event.FAILED)
        if not instructions:
            return
        self._failures_since_commit += 1
        self._failed_counter.add()
        transaction = self._live_machine.open_transactions[message_id.attempt.txid]
        transaction.why = "" if failure is None else self._why(failure)
        self._log_failure(message_id, transaction, len(instructions) - 1)
        if failure is not None:
            self._rows.judge(message_id.attempt, failure)
        if self._failures_since_commit == 1 and not self._paused_txids:
            self._carry_out(instructions)
        else:
            self._replay_later(instructions)

    def _log_failure(self, failed: TreeId, transaction: Transaction, others: int) -> None:
        if (failures := transaction.failures) & (failures - 1):  # the first, the second, the fourth, ...
            return
        why, times = f": {transaction.why}" if transaction.why else "", "" if failures == 1 else f", {failures} times now,"
        later = f", and with it the {others} behind it" if others else ""
        LOGGER.warning("batch %s of %r failed%s in the %s phase%s. It is tried again%s.", failed.attempt, self.context.topology_name, times,
                       "processing" if failed.tree == "processing" else "commit", why, later)  # fmt: skip

    def _why(self, failure: Failure) -> str:
        if failure.reason == TIMEOUT:
            return f"no task has made progress with it for {self.context.config.batch_timeout_secs:g} s (batch_timeout_secs)"
        return failure.describe().rstrip(".")

    def _replay_later(self, instructions: list[Instruction]) -> None:
        """Pause, then replay batches that failed repeatedly. No new batch begins before the replay."""
        self._paused_txids.update(instruction.transaction.txid for instruction in instructions)
        self._awaiting_replies -= self._paused_txids
        if self._replay_aio_task is not None:
            self._replay_aio_task.cancel()
        self._replay_aio_task = self.context.create_task(self._replay_after(BACKOFF.pause_secs(max(self._failures_since_commit - 1, 1))))

    async def _replay_after(self, pause: float) -> None:
        """Replay after a pause. An aio_task of this instance runs this, because a timer would not end with the instance."""
        await asyncio.sleep(pause)
        unsent, self._paused_txids, self._replay_aio_task = self._paused_txids, set(), None
        self._carry_out(
            Instruction("process", transaction) for txid, transaction in self._live_machine.open_transactions.items() if txid in unsent
        )
        self.context.wake()

    # Instructions

    def _carry_out(self, instructions: Iterable[Instruction]) -> None:
        for kind, transaction in instructions:
            if kind == "process":
                self._process(transaction, needs_all_replies=True)
            elif kind == "save":
                self.context.create_task(self._save(transaction.attempt))
            elif kind == "commit":
                self._commit_wait = waiting_for(f"the commit of batch {transaction.txid}").begun()
                self._send((transaction.attempt,), TreeId(transaction.attempt, "commit"), COMMIT_STREAM)
            elif kind == "committed":
                self._note_committed(transaction.txid)
            else:
                assert_never(kind)
        self._open_gauge.set(len(self._live_machine.open_transactions))

    def _process(self, transaction: Transaction, *, needs_all_replies: bool) -> None:
        """Request a batch from the emitters, or put it into `_awaiting_replies` until they have replied.

        needs_all_replies: the emitters may have other partitions than before, as in a replay.
        """
        txid, attempt = transaction.txid, transaction.attempt
        request = self._batches.begin_attempt(attempt)
        # An emitter knows the end of its own previous batch. A new emitter, or one with other partitions, needs the replies of all
        # emitters.
        waits = request.awaited.keys() - request.replay_metadata.keys() and (needs_all_replies or self._batches.changes_partitions(txid))
        if waits or any(earlier < txid for earlier in self._awaiting_replies):
            self._awaiting_replies.add(txid)
            return
        if txid in self._awaiting_replies:
            self._awaiting_replies.discard(txid)
            self.context.wake()
        orders = self._rows.given_up.begin_attempt(attempt)
        if orders is not None:  # it reaches the mailbox of each bolt before any row of the attempt is emitted
            self._send((attempt, orders), TreeId(attempt, "rows"), ROWS_STREAM)
        self._send(request, TreeId(attempt, "processing"), BATCH_STREAM)

    def _send(self, values: tuple[object, ...], tree: TreeId, stream: str) -> None:
        self.port.emit_control(tuple(values), tree, stream, timeout_secs=self.context.config.batch_timeout_secs)

    async def _save(self, attempt: TransactionAttempt) -> None:
        """Store the definition of a batch and the commit of the previous one, then begin the commit phase."""
        record, now = self._batches.record_to_save(attempt.txid), self.context.clock.wall()
        await self._state.save(record, now, self._rows.begin_commit(attempt, now))
        self._saved_txid = record.committed
        self._carry_out(self._live_machine.apply_event(attempt, Event.SAVED))

    def _note_committed(self, txid: int) -> None:
        self._batches.note_commit(txid)
        self._rows.note_commit(txid)
        self._failures_since_commit = 0
        self._committed_counter.add()
        self._txid_gauge.set(txid)
        began = self._begin_times.pop(txid, None)
        if began is not None:
            self._secs_histogram.record(self.context.clock.now() - began)
        self._forgotten.ask()

    async def close(self) -> None:
        """Close the coordinator of the source and the admissions, then store the newest commit. So the next run has nothing to replay."""
        if self._replay_aio_task is not None:
            self._replay_aio_task.cancel()
        self.on_drop()
        async with AsyncExitStack() as ends:  # in reverse order, even if one raises
            ends.push_async_callback(self._save_at_the_end)
            ends.push_async_callback(self._admission_gate.close)
            closed = self._adapter.wrapped.close()
            if closed is not None:
                await closed

    async def _save_at_the_end(self) -> None:
        if self._live_machine.committed <= self._saved_txid:
            return
        try:
            await self._state.save(self._batches.committed_record, self.context.clock.wall())
        except FatalError as error:
            LOGGER.warning("%s. Nothing is lost: the next run tries batch %d again.", error.message, self._live_machine.committed)

    @property
    def _live_machine(self) -> Machine:
        assert self._machine is not None
        return self._machine

    @property
    def _rows(self) -> RowKeeper:
        assert self._row_keeper is not None
        return self._row_keeper
