"""`FlowController` decides which records go to which task, and when (FC-1 to FC-6).

The controller is a plain object without asyncio or a clock.

`FlowControlSpout` asks for `records_wanted`, passes records to `offer_record`, and emits each `next_delivery`. The spout reports the
outcome of a delivery by `note_task_ack`, `note_tree_ack` and `note_tree_failure`, and polls again at `next_wake`. The compiled base
`FlowFeed` does all work per pack. This module handles failures, resends and stalls, which are rare.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from engine.backoff import Backoff
from engine.errors import ERROR, FAILED, ROLLBACK, TASK_DIED, TIMEOUT, Failure
from engine.flow.producer import record_bytes
from engine.flow.settings import FlowSettings
from engine.kernel import FlowFeed, Pack, PackDelivery, TaskChooser, TaskWindow

BACKOFF: Final = Backoff(0.1, 5.0)
"""Pauses before the retries of a pack. The first retry is immediate."""
SUSPECT_FAILURES: Final = 4
"""Number of failures since the last ack that makes a task suspect. Further failures are blamed on the task, not on the record."""
STALL_CHECKS: Final = 8
"""Checks for stalled tasks within `stall_secs`."""
_RECORD_FAILURES: Final = (ERROR, FAILED)
"""Failure reasons that are caused by a record of the pack, not by the task or by a timeout."""
_INNOCENT_FAILURES: Final = (TASK_DIED, ROLLBACK)
"""Failure reasons that no record of the pack can cause, so they do not count as a try. A record that raises fails only its own pack."""

Entry: TypeAlias = tuple[Any, Any, float, int]
"""One record inside the spout, as (position, record, time of the yield, bytes). This is a plain tuple, because there is one per record."""


class FlowController(FlowFeed):
    """Distributes the records of one spout task among the tasks of one bolt."""

    def __init__(
        self,
        settings: FlowSettings,
        task_ids: Sequence[int],
        *,
        concurrency: int = 1,
        stall_secs: float = math.inf,
        size_of: Callable[[Any], int] = record_bytes,
    ) -> None:
        """concurrency: packs that a task processes at the same time.

        stall_secs: time without an ack after which a task counts as stalled.
        """
        self._settings = settings
        windows = [
            TaskWindow(
                task_id,
                initial_size=max(settings.initial_window, concurrency),
                max_size=max(settings.max_window, concurrency),
                threshold_secs=(settings.threshold_ms or 0) / 1000,
                pack_secs=settings.pack_ms / 1000,
                concurrency=concurrency,
            )
            for task_id in task_ids
        ]
        super().__init__(TaskChooser(windows, by_turns=settings.choice == "round_robin"), settings, size_of, stall_secs)

    @property
    def buffered_records(self) -> int:
        """Number of records that were never sent."""
        return len(self.buffer)

    @property
    def has_work(self) -> bool:
        """True while a record waits to be sent or resent."""
        return bool(self.buffer or self.resend_queue)

    # Resends

    def is_resend_due(self, now: float) -> bool:
        """Tell whether a pack waits to be resent, and its pause is over."""
        while self.resend_queue and self.resend_queue[0][2].is_done:
            heapq.heappop(self.resend_queue)
        return bool(self.resend_queue) and self.resend_queue[0][0] <= now

    def resend(self, now: float) -> PackDelivery | None:
        """Resend the first queued pack. Return None if no task has room.

        The pack is sent to another task than before. The same task gets the pack only if no other task has room, or if all other tasks with
        room are BUSY, unlike this task.
        """
        _, _, pack, before = self.resend_queue[0]
        window, other = self.chooser.choose(now), self.chooser.choose(now, before)
        if window is None:
            return None
        if other is not None and (other.state != "BUSY" or window.state == "BUSY"):
            window = other
        heapq.heappop(self.resend_queue)
        return self.send_pack(pack, window, now)

    def _queue_resend(self, pack: Pack, before: TaskWindow, due: float) -> None:
        heapq.heappush(self.resend_queue, (due, pack.first, pack, before))

    # Failures

    def note_tree_failure(self, delivery: PackDelivery, failure: Failure, now: float) -> list[Entry]:
        """Handle the failure of a pack's tree. Return the records that are given up now. Given-up records count as done."""
        window, pack = delivery.window, delivery.pack
        is_of_record = failure.reason in _RECORD_FAILURES and failure.task_id == window.task_id
        has_failed_before = pack.tries > 0 and len(pack.entries) == 1
        if not delivery.is_outstanding:
            pass  # the window no longer counts the pack, because the task has acked it, or the pack was called back
        elif is_of_record and has_failed_before and not _is_suspect(window):
            self._note_bad_record(delivery, now)
        elif failure.task_id == window.task_id or (failure.task_id is None and failure.reason == TIMEOUT):
            self._penalize_task(delivery, now)
            if failure.reason == TIMEOUT:
                self._call_back(window, now)
        else:
            window.release(delivery, now)
        if pack.is_done or delivery.was_called_back:
            return []
        return self._retry(delivery, failure, now, failed_index=_failed_index(delivery) if is_of_record else None)

    def _penalize_task(self, delivery: PackDelivery, now: float) -> None:
        """Make the task BUSY, until it acks something, or the record fails at a second task too."""
        window = delivery.window
        before = window.size
        window.note_failure(delivery, now)
        delivery.pack.penalty = _Penalty(window, window.streak, before - window.size)

    def _note_bad_record(self, delivery: PackDelivery, now: float) -> None:
        """Count a record's second failure. If the second failure happens at another, healthy task, the record is bad."""
        window, penalty = delivery.window, delivery.pack.penalty
        window.note_repeated_failure(delivery, now)
        if penalty is not None and penalty.window is not window and window.state != "BUSY":
            penalty.revoke()

    # Topologies with state, where a failed pack is repeated with its interval

    def note_failed_pack(self, delivery: PackDelivery, failure: Failure, now: float) -> None:
        """Note in its window that a pack has failed. It is not resent."""
        window = delivery.window
        if not delivery.is_outstanding:
            return
        is_of_task = failure.task_id == window.task_id or (failure.task_id is None and failure.reason == TIMEOUT)
        if is_of_task and failure.reason in _RECORD_FAILURES and self._was_suspect(delivery.pack) and not _is_suspect(window):
            self._note_bad_record(delivery, now)
        elif is_of_task:
            self._penalize_task(delivery, now)
        else:
            window.release(delivery, now)

    def _was_suspect(self, pack: Pack) -> bool:
        return self.goes_alone is not None and len(pack.entries) == 1 and self.goes_alone(pack.position)

    def begin_again(self, now: float) -> None:
        """Forget all records. The windows keep what they know of the tasks."""
        for window in self.chooser.windows:
            for delivery in window.deliveries():
                window.release(delivery, now)
        self.forget_records()

    # Stalls

    def check_for_stalls(self, now: float) -> None:
        """Call packs back from tasks that have acked nothing for `stall_secs`."""
        # A pack that only waits behind another one never times out (ACK-8), so no failure would trigger a resend.
        self.next_stall_check = now + self.stall_secs / STALL_CHECKS
        for window in self.chooser.windows:
            if window.in_flight and now - window.head_began >= self.stall_secs:
                window.note_stall(now)
                self._call_back(window, now)

    def _call_back(self, window: TaskWindow, now: float) -> None:
        """Queue all packs at a stalled task for other tasks. A pack is done when either task has done it."""
        for delivery in window.deliveries():
            window.call_back(delivery, now)
            self._queue_resend(delivery.pack, window, now)

    def _retry(self, delivery: PackDelivery, failure: Failure, now: float, *, failed_index: int | None) -> list[Entry]:
        """Queue a failed pack, or its parts, for a retry. Return the records that are given up instead."""
        window, pack = delivery.window, delivery.pack
        if failure.reason in _INNOCENT_FAILURES:
            self._queue_resend(pack, window, now)
            return []
        pack.tries += 1
        is_over = self._settings.max_retries is not None and pack.tries > self._settings.max_retries
        failed, is_known = [pack], len(pack.entries) == 1
        if not is_known and failed_index is not None:
            one, others = pack.split_around(failed_index)
            failed, is_known = [one], True
            for other in others:
                self._queue_resend(other, window, now)
        elif not is_known and (is_over or failure.reason in _RECORD_FAILURES):
            failed = pack.split_into_singles()
        if is_known and is_over:
            return self._give_up(failed[0])
        due = now + BACKOFF.pause_secs(pack.tries - 1)
        for part in failed:
            part.penalty = pack.penalty
            self._queue_resend(part, window, due)
        return []

    def _give_up(self, pack: Pack) -> list[Entry]:
        pack.is_done = True
        self.prefix.mark_done(pack.first, pack.last, pack.position)
        return list(pack.entries)


@dataclass(slots=True)
class _Penalty:
    """Reduction of a task's window after one failure. The parts of a split pack share one penalty."""

    window: TaskWindow
    streak: int
    lost_size: int
    """Packs by which the window shrank."""
    is_revoked: bool = False

    def revoke(self) -> None:
        """Undo the penalty once, because a bad record of the pack caused the failure."""
        if not self.is_revoked:
            self.is_revoked = True
            self.window.revoke_failure(self.streak, self.lost_size)


def _is_suspect(window: TaskWindow) -> bool:
    """Tell whether the next failure at a task makes it BUSY, even if the record has failed before."""
    # Without this rule, two tasks that fail every record would always blame the records. Such tasks would look idle and would get all
    # records.
    return window.state != "BUSY" and window.failures_since_ack >= SUSPECT_FAILURES


def _failed_index(delivery: PackDelivery) -> int | None:
    """Return the index of the failed record, None if it is unknown."""
    return None if delivery.payload is None else delivery.payload.failed_index
