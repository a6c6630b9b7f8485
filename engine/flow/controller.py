"""Which records go where, and when (FC-1 to FC-6): a plain object that is given times and verdicts.

Its shell asks `wanted` and gives it so many records by `offer`, then asks `next_send`; tells it what came of each Sending by `settled`,
`acked` and `failed`; and looks again at `look_at`. What is done for every pack is compiled (`FlowFeed`); what is rare stands here.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.errors import ERROR, FAILED, ROLLBACK, TASK_DIED, TIMEOUT, Failure
from engine.flow.pack import Entry
from engine.flow.producer import record_bytes
from engine.flow.settings import FlowSettings
from engine.kernel import AdaptiveFlowConsumer, FlowFeed, FlowTasks, Pack, Sending

FIRST_RETRY_SECS: Final = 0.1
LONGEST_RETRY_SECS: Final = 5.0
DOUBTED_FAILURES: Final = 4
"""So many without an ack, and what fails at a task is its own doing: two that fail everything would clear each other for ever."""
STALL_LOOKS: Final = 8
"""How often within the time of a stall it is looked for one."""
_OF_THE_RECORDS: Final = (ERROR, FAILED)
"""Failures that a record of the pack has caused, not the task or the time."""
_OF_OTHERS: Final = (TASK_DIED, ROLLBACK)
"""Failures that no record of the pack can have caused: what raises fails its own pack alone. They count as no try."""


class FlowController(FlowFeed):
    """The flow of one spout task to the tasks of one bolt."""

    def __init__(
        self,
        settings: FlowSettings,
        task_ids: Sequence[int],
        *,
        width: int = 1,
        stall_secs: float = math.inf,
        size_of: Callable[[Any], int] = record_bytes,
    ) -> None:
        """Take the tasks, and how many packs each works on at once; one that acks nothing for `stall_secs` stands still."""
        self._settings = settings
        consumers = [
            AdaptiveFlowConsumer(
                task_id,
                initial_window=max(settings.initial_window, width),
                max_window=max(settings.max_window, width),
                threshold_secs=(settings.threshold_ms or 0) / 1000,
                pack_secs=settings.pack_ms / 1000,
                width=width,
            )
            for task_id in task_ids
        ]
        super().__init__(FlowTasks(consumers, by_turns=settings.choice == "round_robin"), settings, size_of, stall_secs)

    # How it stands

    @property
    def buffered(self) -> int:
        """Records that wait to be sent for the first time."""
        return len(self.buffer)

    @property
    def has_work(self) -> bool:
        """True while a record waits to be sent, for the first time or again."""
        return bool(self.buffer or self.resends)

    # Out again

    def is_resend_due(self, now: float) -> bool:
        """Tell whether a pack waits to be sent again, and its pause is over."""
        while self.resends and self.resends[0][2].is_done:
            heapq.heappop(self.resends)
        return bool(self.resends) and self.resends[0][0] <= now

    def resend(self, now: float) -> Sending | None:
        """Send what failed to another task than it failed at; to that one where there is no other, or only BUSY ones while it is well."""
        _, _, pack, before = self.resends[0]
        consumer, other = self.tasks.choose(now), self.tasks.choose(now, before)
        if consumer is None:
            return None
        if other is not None and (other.state != "BUSY" or consumer.state == "BUSY"):
            consumer = other
        heapq.heappop(self.resends)
        return self.send(pack, consumer, now)

    def _wait_to_resend(self, pack: Pack, before: AdaptiveFlowConsumer, due: float) -> None:
        heapq.heappush(self.resends, (due, pack.first, pack, before))

    # Back

    def failed(self, sending: Sending, failure: Failure, now: float) -> list[Entry]:
        """The tree failed; return the records that are given up by that, and count as done."""
        consumer, pack = sending.consumer, sending.pack
        is_of_record = failure.reason in _OF_THE_RECORDS and failure.task_id == consumer.task_id
        has_failed_before = pack.tries > 0 and len(pack.entries) == 1
        if not sending.is_outstanding:
            pass
        elif is_of_record and has_failed_before and not _is_doubted(consumer):
            self._failed_again(sending, now)
        elif failure.task_id == consumer.task_id or (failure.task_id is None and failure.reason == TIMEOUT):
            self._held_against(sending, now)
            if failure.reason == TIMEOUT:
                self._call_back(consumer, now)
        else:
            consumer.released(sending, now)
        if pack.is_done or sending.was_called_back:
            return []
        return self._try_again(sending, failure, now, place=_place_in(sending) if is_of_record else None)

    def _held_against(self, sending: Sending, now: float) -> None:
        """The task is BUSY for it, until it acks something, or the record fails at another one as well."""
        consumer = sending.consumer
        before = consumer.window
        consumer.failed(sending, now)
        sending.pack.blame = _Blame(consumer, consumer.row, before - consumer.window)

    def _failed_again(self, sending: Sending, now: float) -> None:
        """The record is what is wrong, where it fails at a second task that is well."""
        consumer, blame = sending.consumer, sending.pack.blame
        consumer.failed_again(sending, now)
        if blame is not None and blame.consumer is not consumer and consumer.state != "BUSY":
            blame.take_back()

    def look_for_stalls(self, now: float) -> None:
        """Call back from tasks that have acked nothing for too long: a pack that only waits there never times out (ACK-8)."""
        self.next_stall_look = now + self.stall_secs / STALL_LOOKS
        for consumer in self.tasks.consumers:
            if consumer.in_flight and now - consumer.head_began >= self.stall_secs:
                consumer.stalled(now)
                self._call_back(consumer, now)

    def _call_back(self, consumer: AdaptiveFlowConsumer, now: float) -> None:
        """Have what waits at a task that stands still be sent to another one; which of the two does it first is the same."""
        for sending in consumer.sendings():
            consumer.called_back(sending, now)
            self._wait_to_resend(sending.pack, consumer, now)

    def _try_again(self, sending: Sending, failure: Failure, now: float, *, place: int | None) -> list[Entry]:
        """Have it wait to be sent again, as what it is split into; `place`: which of its records has failed, where that is known."""
        consumer, pack = sending.consumer, sending.pack
        if failure.reason in _OF_OTHERS:
            self._wait_to_resend(pack, consumer, now)
            return []
        pack.tries += 1
        is_over = self._settings.max_retries is not None and pack.tries > self._settings.max_retries
        failed, is_known = [pack], len(pack.entries) == 1
        if not is_known and place is not None:
            one, others = pack.split_around(place)
            failed, is_known = [one], True
            for other in others:
                self._wait_to_resend(other, consumer, now)
        elif not is_known and (is_over or failure.reason in _OF_THE_RECORDS):
            failed = pack.singles()
        if is_known and is_over:
            return self._give_up(failed[0])
        due = now if pack.tries == 1 else now + min(FIRST_RETRY_SECS * 2.0 ** min(pack.tries - 2, 20), LONGEST_RETRY_SECS)
        for again in failed:
            again.blame = pack.blame
            self._wait_to_resend(again, consumer, due)
        return []

    def _give_up(self, pack: Pack) -> list[Entry]:
        pack.is_done = True
        self.prefix.add(pack.first, pack.last, pack.position)
        return list(pack.entries)


@dataclass(slots=True)
class _Blame:
    """A failure that is held against a task."""

    consumer: AdaptiveFlowConsumer
    row: int
    places: int
    """Of its window, that it lost by it."""
    is_held: bool = True

    def take_back(self) -> None:
        """It was a record's doing: of one of those that came of the pack, whichever fails first."""
        if self.is_held:
            self.is_held = False
            self.consumer.excused(self.row, self.places)


def _is_doubted(consumer: AdaptiveFlowConsumer) -> bool:
    """Tell whether a task is to become BUSY by what fails there next, whatever it is."""
    return consumer.state != "BUSY" and consumer.failed_since_ack >= DOUBTED_FAILURES


def _place_in(sending: Sending) -> int | None:
    """Return at which of its records the bolt stood, where it says so."""
    return None if sending.contents is None else sending.contents.place
