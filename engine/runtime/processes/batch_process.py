"""`BatchProcessExecutor` is the actor of a bolt task of transactions whose instances live in a child process.

The child has the real runner of the bolt, with one instance for each attempt. So it gets the tuples of the batches, and also the control
tuples, in one order. The run counts the emitted tuples of each attempt, because only the run knows their targets (TX-5).
"""

from typing import Any

from engine.errors import Failure, UsageError
from engine.kernel import BatchFeed, BoltCore, TaskBatch, Tuple, emit_batch_rows
from engine.names import REPORT_STREAM
from engine.runtime.processes.process_bolt import ProcessBoltExecutor
from engine.runtime.processes.progress import OtherVerdict
from engine.runtime.processes.row_apart import RowApart


class _Sent:
    """Numbers of emitted tuples, by attempt and target task."""

    def __init__(self, core: BoltCore) -> None:
        self.feed = BatchFeed(core, self, ())
        self._failures: dict[Any, Failure] = {}
        """Attempts with a tuple that could not be sent. Such an attempt fails where it would report its tuples."""

    def begin(self, attempt: Any) -> TaskBatch:
        """Begin to count for an attempt, which replaces the earlier ones of its batch. The feed calls this at the first tuple."""
        self._forget(attempt.txid)
        return TaskBatch(self.feed, attempt)

    def fail(self, attempt: Any, failure: Failure) -> None:
        """Note a tuple that could not be sent. Later tuples of the attempt are dropped."""
        batch = self.feed.batch_or_begin(attempt)
        assert batch is not None
        batch.dead = True
        self._failures.setdefault(attempt, failure)

    def has_failed(self, attempt: Any) -> bool:
        """Tell whether a tuple of the attempt could not be sent."""
        return attempt in self._failures

    def take(self, attempt: Any) -> dict[int, int] | Failure:
        """Return the numbers of an attempt, or its failure. Forget its batch."""
        batch, failure = self.feed.batches.get(attempt), self._failures.get(attempt)
        sent = {} if batch is None else batch.sent_by_task()
        self._forget(attempt.txid)
        return sent if failure is None else failure

    def _forget(self, txid: int) -> None:
        for each in [each for each in self.feed.batches if each.txid == txid]:
            self.feed.drop_batch(each)
            self._failures.pop(each, None)


class BatchProcessExecutor(ProcessBoltExecutor):
    """The actor of one bolt task of transactions with `processes=True`."""

    async def _make_instance(self) -> None:
        self._sent = _Sent(self.core)
        await super()._make_instance()

    async def _serve_control(self, tup: Tuple | None) -> None:
        """Send a report or a commit to the child, behind the tuples before it."""
        if tup is not None:
            self._open_controls = [each for each in self._open_controls if not each.is_settled]
            self._open_controls.append(tup)
            self.calls.send_control(tup)

    def _settle(self, acks: list[int], others: list[OtherVerdict]) -> None:
        """Settle control tuples. The other tuples of a batch belong to no tree."""
        taken = self.calls.taken
        for number in acks:
            if number in taken:
                self.core.settle_control(taken.pop(number))
        for number, failure, _ in others:
            if number not in taken:
                continue
            if failure is None:
                self.core.reset_timeout(taken[number])
            else:
                self.core.settle_control(taken.pop(number), failure)

    def _on_reply(self, number: int, answer: Any) -> None:
        """Pass on the answer of the child to a control tuple that is not settled yet."""
        tup = self.calls.taken.get(number)
        if tup is not None:
            self.port.reply(tup, answer)

    def _emit(self, stream: str, rows: list[Any], anchors: list[Any], target: int | None) -> None:
        if stream == REPORT_STREAM:
            for (attempt, _), anchor in zip(rows, anchors, strict=True):
                self._report(attempt, self.calls.taken.get(anchor))
        else:
            for attempt, error in emit_batch_rows(self._sent.feed, stream, rows, target):
                self._report_refused(error, next_step=f"batch {attempt} fails, and is tried again")
                self._sent.fail(attempt, self.failure_of(error))

    def _lose_row(self, row: RowApart, error: UsageError) -> None:
        """Fail the batch of a row that cannot be loaded. Only the first one of an attempt is reported."""
        if not self._sent.has_failed(row.batch):
            self._report_refused(error, next_step=f"batch {row.batch} fails, and is tried again")
        self._sent.fail(row.batch, self.failure_of(error))

    def _report(self, attempt: Any, anchor: Tuple | None) -> None:
        """Report the numbers of sent tuples of an attempt, anchored to its last control tuple."""
        sent = self._sent.take(attempt)
        if not isinstance(sent, Failure):
            self.core.emit_control((attempt, sent), REPORT_STREAM, anchor)
        elif anchor is not None:
            self.core.settle_control(anchor, sent)

    def _on_lost(self, attempt: Any, failure: Failure) -> None:
        """Note an emitted tuple that could not be pickled."""
        self._sent.fail(attempt, failure)
