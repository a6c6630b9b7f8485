"""`WorkSender` sends the emits and the verdicts of a child, also if a value of them cannot be sent."""

import pickle
from typing import Any

from engine.errors import ERROR, Failure, UsageError
from engine.kernel import are_plain
from engine.raised import headline
from engine.runtime.error_report import ErrorReporter
from engine.runtime.plan import TaskInfo
from engine.runtime.processes.packed import Packed
from engine.runtime.processes.progress import OtherVerdict, Progress
from engine.runtime.processes.relay import Relay
from engine.runtime.processes.row_apart import STORE, RowApart
from engine.safe_text import safe_repr


class WorkSender:
    """Sends frames of work to the run. If a value cannot go there, only the anchors of its row fail.

    has_batches: the task has batches of transactions. Then the attempt of the row fails.
    """

    def __init__(self, relay: Relay, info: TaskInfo, reporter: ErrorReporter, *, has_batches: bool) -> None:
        self._relay = relay
        self._info = info
        self._reporter = reporter
        self._has_batches = has_batches
        self._lost_of: Any = None
        """Attempt of the newest emitted tuple of a batch that could not be sent. Only the first one of an attempt is reported."""

    def send(self, emits: list[Any], acks: list[int], others: list[OtherVerdict], progress: Progress) -> int:
        """Send a frame, and return its length. If a value cannot be pickled and loaded, send each row alone, and return 0."""
        first = 1 if self._has_batches else 0  # the attempt can be loaded
        if all(are_plain(rows, first) for _, rows, _ in emits):  # outside the `try`, so that a SystemExit of a signal handler ends the loop
            return self._relay.send("work", emits, acks, others, progress)
        try:
            return self._relay.send_checked("work", emits, acks, others, progress)
        except BaseException:  # noqa: BLE001 - code of a value; `_apart` finds it
            self._relay.send(*self._apart(emits, acks, others, progress))
            return 0

    def take_apart(self, frame: bytes) -> None:
        """Send the work of a frame once more, each row pickled on its own, because the run could not load a value of it."""
        _, *work = pickle.loads(frame)
        self._relay.send("apart", *self._apart(*work))

    def _apart(self, emits: list[Any], acks: list[int], others: list[OtherVerdict], progress: Progress) -> tuple[Any, ...]:
        """Return the message with each row alone. The anchors of a row that cannot be pickled and loaded here fail."""
        failed: dict[int, Failure] = {}
        rows = [
            self._row_apart(target, row, anchor, failed)
            for target, rows, anchors in emits
            for row, anchor in zip(rows, anchors, strict=True)
        ]
        fails = [*((number, failure, None) for number, failure in failed.items()), *(each for each in others if each[0] not in failed)]
        sent = [row for row in rows if row.values.pickled is not None]
        return "work_apart", sent, [each for each in acks if each not in failed], fails, progress

    def _row_apart(self, target: Any, row: tuple[Any, ...], anchor: int | tuple[int, ...], failed: dict[int, Failure]) -> RowApart:
        """Return one emitted row. If it cannot be pickled and loaded, note the failure of its anchors."""
        info, text, batch = self._info, safe_repr(row, 200), row[0] if self._has_batches else None
        try:
            pickled = pickle.dumps(row, 5)
            pickle.loads(pickled)
        except BaseException as error:  # noqa: BLE001 - code of the value
            lost = RowApart(target, Packed(None, text), anchor, batch)
            told = lost.lost(info.component_id, STORE, headline(error))
            failure = Failure(ERROR, info.component_id, info.task_id, headline(told))
            if self._has_batches:
                self._lose_batch(batch, told, failure)
            else:
                self._reporter.report(told, next_step="the tuple is not emitted, and its anchors fail")
                failed |= dict.fromkeys(lost.anchors(), failure)
            return lost
        return RowApart(target, Packed(pickled, text), anchor, batch)

    def _lose_batch(self, attempt: Any, error: UsageError, failure: Failure) -> None:
        """Let an attempt fail, because a tuple of it cannot be sent."""
        if attempt != self._lost_of:
            self._lost_of = attempt
            self._reporter.report(error, next_step=f"batch {attempt} fails, and is tried again")
            self._relay.send("lost", attempt, failure)
