"""`WorkSender` sends the emits and the verdicts of a child, also if a value of them cannot be sent."""

from typing import Any

from engine.errors import ERROR, Failure, UsageError
from engine.kernel import are_plain
from engine.raised import headline
from engine.runtime.error_report import ErrorReporter
from engine.runtime.plan import TaskInfo
from engine.runtime.processes.progress import OtherVerdict, Progress
from engine.runtime.processes.relay import Relay
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
        except BaseException:  # noqa: BLE001 - code of a value; the loop below finds it
            failed: dict[int, Failure] = {}
            for target, rows, anchors in emits:
                for row, anchor in zip(rows, anchors, strict=True):
                    self._send_alone(target, row, anchor, failed)
            fails = [*((number, failure, None) for number, failure in failed.items()), *(each for each in others if each[0] not in failed)]
            self._relay.send("work", [], [each for each in acks if each not in failed], fails, progress)
            return 0

    def _send_alone(self, target: Any, row: tuple[Any, ...], anchor: int | tuple[int, ...], failed: dict[int, Failure]) -> None:
        """Send one emitted row. If a value of it cannot be pickled and loaded, its anchors fail."""
        info = self._info
        try:
            self._relay.send_checked("emits", [(target, [row], [anchor])])
        except BaseException as error:  # noqa: BLE001 - code of the value
            text = f"bolt {info.component_id!r} runs in a process and has emitted a value that pickle cannot store and load"
            hint = "Emit values that pickle can store and load, or leave out processes=True."
            told = UsageError(f"{text}: {safe_repr(row, 200)} ({headline(error)})", hint=hint)
            failure = Failure(ERROR, info.component_id, info.task_id, headline(told))
            if self._has_batches:
                self._lose_batch(row[0], told, failure)
                return
            self._reporter.report(told, next_step="the tuple is not emitted, and its anchors fail")
            failed |= dict.fromkeys(anchor if isinstance(anchor, tuple) else (anchor,) if anchor else (), failure)

    def _lose_batch(self, attempt: Any, error: UsageError, failure: Failure) -> None:
        """Let an attempt fail, because a tuple of it cannot be sent."""
        if attempt != self._lost_of:
            self._lost_of = attempt
            self._reporter.report(error, next_step=f"batch {attempt} fails, and is tried again")
            self._relay.send("lost", attempt, failure)
