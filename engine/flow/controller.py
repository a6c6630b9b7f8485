"""Which records go where, and when (FC-1 to FC-6): a plain object that is given times and verdicts.

Its shell asks `wanted` and gives it so many records by `offer`, then asks `next_send`; tells it what came of each Sending by `settled`,
`acked` and `failed`; and looks again at `look_at`.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from engine.errors import ERROR, FAILED, TIMEOUT, Failure
from engine.flow.done_prefix import DonePrefix
from engine.flow.pack import Entry, Pack
from engine.flow.producer import record_bytes
from engine.flow.settings import FlowSettings
from engine.kernel import AdaptiveFlowConsumer, FlowTasks, Sending

FIRST_RETRY_SECS: Final = 0.1
LONGEST_RETRY_SECS: Final = 5.0
STALL_LOOKS: Final = 8
"""How often within the time of a stall it is looked for one."""
_OF_THE_RECORDS: Final = (ERROR, FAILED)
"""Failures that a record of the pack has caused, not the task or the time."""


class FlowController:
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
        self._stall_secs = stall_secs
        self._size_of = size_of
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
        self.tasks: Final = FlowTasks(consumers, by_turns=settings.choice == "round_robin")
        self.prefix: Final = DonePrefix()
        self._outstanding: dict[AdaptiveFlowConsumer, dict[Sending, None]] = {each: {} for each in self.tasks.consumers}
        self._buffer: deque[Entry] = deque()
        self._yielded = 0
        self._resends: list[tuple[float, int, Pack, AdaptiveFlowConsumer]] = []
        """A heap of (when it is due, its first number, the pack, the task that had it)."""
        self._next_stall_look = 0.0
        self.is_last = False
        """True when the source has ended: what is buffered is all there will be."""

    # How it stands

    @property
    def buffered(self) -> int:
        """Records that wait to be sent for the first time."""
        return len(self._buffer)

    @property
    def sent(self) -> int:
        """The number of the last record that was sent."""
        return self._yielded - len(self._buffer)

    @property
    def pending(self) -> int:
        """Records that were sent, and are beyond the done prefix."""
        return self.sent - self.prefix.done

    @property
    def is_full(self) -> bool:
        """True when no more records may be sent beyond the done prefix."""
        return self.pending >= self._settings.max_pending_records

    @property
    def has_work(self) -> bool:
        """True while a record waits to be sent, for the first time or again."""
        return bool(self._buffer or self._resends)

    def look_at(self, now: float) -> float | None:
        """Return when something may be sent though nothing came back; None: not before something does."""
        times = []
        if self._resends:
            times.append(self._resends[0][0])
        if self.has_work and (probe := self.tasks.next_probe()) is not None:
            times.append(probe)
        if self._buffer and not self.is_full:
            times.append(self._buffer[0][2] + self._settings.pack_age_ms / 1000)
        times += [each.head_began + self._stall_secs for each in self.tasks.consumers if each.in_flight]
        later = [at for at in times if at > now]
        return min(later, default=None)

    # Out

    def wanted(self, now: float) -> int:
        """Return how many more records the next pack could take; 0 where none could be sent now."""
        if now >= self._next_stall_look:
            self._look_for_stalls(now)
        if self._is_resend_due(now) or self.is_full or self.is_last:
            return 0
        consumer = self.tasks.choose(now)
        return 0 if consumer is None else max(0, self._most_records(consumer) - len(self._buffer))

    def offer(self, position: Any, record: Any, now: float) -> None:
        """Take a record in, behind those that were taken before."""
        self._yielded += 1
        self._buffer.append((position, record, now))

    def next_send(self, now: float) -> Sending | None:
        """Return the next pack on its way to its task; None where nothing can be sent, or a pack waits to be filled."""
        if self._is_resend_due(now):
            return self._resend(now)
        if not self._buffer or self.is_full:
            return None
        consumer = self.tasks.choose(now)
        if consumer is None or self._waits_to_fill(consumer, now):
            return None
        first = self.sent + 1
        return self._send(Pack(first, self._take_entries(self._most_records(consumer))), consumer, now)

    def _most_records(self, consumer: AdaptiveFlowConsumer) -> int:
        settings = self._settings
        left = settings.max_pending_records - self.pending
        return min(consumer.records_for(settings.pack_ms / 1000), settings.pack_records, left)

    def _waits_to_fill(self, consumer: AdaptiveFlowConsumer, now: float) -> bool:
        """True while a pack had better grow: the task has work, and no record of it is old."""
        if self.is_last or consumer.in_flight == 0 or len(self._buffer) >= self._most_records(consumer):
            return False
        return now < self._buffer[0][2] + self._settings.pack_age_ms / 1000

    def _take_entries(self, most: int) -> list[Entry]:
        buffer, size_of = self._buffer, self._size_of
        taken = [buffer.popleft()]
        if most == 1 or not buffer:
            return taken
        left = self._settings.pack_bytes - size_of(taken[0][1])
        for _ in range(min(most - 1, len(buffer))):
            left -= size_of(buffer[0][1])
            if left < 0:
                break
            taken.append(buffer.popleft())
        return taken

    def _send(self, pack: Pack, consumer: AdaptiveFlowConsumer, now: float) -> Sending:
        pack.copies += 1
        sending = consumer.send(pack, len(pack.entries), now)
        self._outstanding[consumer][sending] = None
        self.tasks.sent_to(consumer)
        return sending

    # Out again

    def _is_resend_due(self, now: float) -> bool:
        while self._resends and self._resends[0][2].is_done:
            heapq.heappop(self._resends)
        return bool(self._resends) and self._resends[0][0] <= now

    def _resend(self, now: float) -> Sending | None:
        """Send what failed to another task than it failed at; to that one where there is no other."""
        _, _, pack, before = self._resends[0]
        consumer = self.tasks.choose(now, before) or self.tasks.choose(now)
        if consumer is None:
            return None
        heapq.heappop(self._resends)
        pack.is_waiting = False
        return self._send(pack, consumer, now)

    def _wait_to_resend(self, pack: Pack, before: AdaptiveFlowConsumer, due: float) -> None:
        pack.is_waiting = True
        heapq.heappush(self._resends, (due, pack.first, pack, before))

    # Back

    def settled(self, sending: Sending, now: float) -> None:
        """The task has acked its part; what is downstream may still be open."""
        if sending.consumer.settled(sending, now):
            del self._outstanding[sending.consumer][sending]

    def acked(self, sending: Sending, now: float) -> bool:
        """The whole tree is done; tell whether the done prefix has grown."""
        self.settled(sending, now)
        pack: Pack = sending.pack
        pack.copies -= 1
        if pack.is_done:
            return False
        pack.is_done = True
        return self.prefix.add(pack.first, pack.last, pack.position)

    def failed(self, sending: Sending, failure: Failure, now: float) -> list[Entry]:
        """The tree failed; return the records that are given up by that, and count as done."""
        consumer, pack = sending.consumer, sending.pack
        if sending.is_outstanding:
            del self._outstanding[consumer][sending]
            if failure.task_id is None or failure.task_id == consumer.task_id:
                consumer.failed(sending, now)
                if failure.reason == TIMEOUT:
                    self._call_back(consumer, now)
            else:
                consumer.released(sending, now)
        pack.copies -= 1
        if pack.is_done or pack.is_waiting or pack.copies > 0:
            return []
        return self._try_again(pack, consumer, failure, now)

    def _look_for_stalls(self, now: float) -> None:
        """Call back from tasks that have acked nothing for too long: a pack that only waits there never times out (ACK-8)."""
        self._next_stall_look = now + self._stall_secs / STALL_LOOKS
        for consumer in self.tasks.consumers:
            if consumer.in_flight and now - consumer.head_began >= self._stall_secs:
                consumer.stalled(now)
                self._call_back(consumer, now)

    def _call_back(self, consumer: AdaptiveFlowConsumer, now: float) -> None:
        """Have what waits at a task that stands still be sent to another one; which of the two does it first is the same."""
        for sending in self._outstanding[consumer]:
            consumer.called_back(sending, now)
            self._wait_to_resend(sending.pack, consumer, now)
        self._outstanding[consumer].clear()

    def _try_again(self, pack: Pack, consumer: AdaptiveFlowConsumer, failure: Failure, now: float) -> list[Entry]:
        most = self._settings.max_retries
        is_single = len(pack.entries) == 1
        pack.tries += 1
        if is_single and most is not None and pack.tries > most:
            pack.is_done = True
            self.prefix.add(pack.first, pack.last, pack.position)
            return list(pack.entries)
        due = now if pack.tries == 1 else now + min(FIRST_RETRY_SECS * 2.0 ** min(pack.tries - 2, 20), LONGEST_RETRY_SECS)
        split = not is_single and (failure.reason in _OF_THE_RECORDS or (most is not None and pack.tries > most))
        for again in pack.singles() if split else (pack,):
            self._wait_to_resend(again, consumer, due)
        return []
