"""The compiled part of flow control. It has the windows of bolt tasks, the choice of a task, packs, and the done prefix (FC-1 to FC-6).

All classes are plain objects. The caller passes the time, in seconds of one monotonic clock, and the acks and failures.
docs/decisions/0006-flow.md has the state table. Failures, resends and stalls are rare, so `FlowController` handles them in Python.
"""
from collections import deque as _deque

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t
cimport cython

from _native.timing cimport LatencyHistogram, record_latency

cdef object deque = _deque

cdef enum:
    PACKS_AHEAD = 1                 # packs queued in addition to those in progress, so that a task never waits for its sender
    SMOOTHING = 8                   # a new service time counts one eighth, as in TCP's smoothed round trip time

cdef double FIRST_PAUSE_SECS = 0.010
cdef double LONGEST_PAUSE_SECS = 1.0
cdef tuple STATE_NAMES = ("NORMAL", "SLOW", "BUSY")


@cython.final
@cython.freelist(256)
cdef class PackDelivery:
    """One pack that was sent to one task and is not settled there. It is the message id of the pack's tuple."""

    def __repr__(self):
        return f"<PackDelivery of {self.pack!r} to task {self.window.task_id}>"


@cython.final
cdef class TaskWindow:
    """Send window of one bolt task. At most `size` packs may be in flight, and at most `concurrency` packs in progress.

    `threshold_secs`: an ack that takes longer makes the task SLOW; 0 means the time of `concurrency` + 1 packs. `pack_secs`: the
    service time that a pack aims at.
    """

    def __init__(self, int32_t task_id, *, Py_ssize_t initial_size, Py_ssize_t max_size, double threshold_secs, double pack_secs,
                 Py_ssize_t concurrency=1):
        self.task_id, self.concurrency = task_id, concurrency
        self.size, self.max_size = initial_size, max_size
        self.fixed_threshold, self.pack_secs = threshold_secs, pack_secs
        self.service = LatencyHistogram()
        self.outstanding = {}

    # Queries

    @property
    def state(self):
        return STATE_NAMES[self.code]

    @property
    def service_secs(self):
        """Smoothed service time of one record; None before the first ack."""
        return self.record_secs if self.acked_packs else None

    @property
    def threshold_secs(self):
        """A pack that takes longer from its emit to its ack makes the task SLOW."""
        return self.threshold()

    cdef double threshold(self) noexcept:
        if self.fixed_threshold > 0:
            return self.fixed_threshold
        return (self.concurrency + PACKS_AHEAD) * max(self.pack_secs, self.pack_service)

    cpdef Py_ssize_t records_in(self, double secs) noexcept:
        """Number of records that the task processes in this time, at least 1. It is 1 before the first ack and for a BUSY task."""
        if self.acked_packs == 0 or self.code == BUSY or self.record_secs >= secs:
            return 1
        return <Py_ssize_t>min(secs / max(self.record_secs, 1e-9), 1e9)

    def deliveries(self):
        """Deliveries in flight, the oldest first."""
        return list(self.outstanding)

    cpdef double expected_wait(self, double now) noexcept:
        """Return the seconds until the task would begin a pack that is sent now.

        Includes the time by which the oldest pack is overdue. With a heavy tail, a call that has taken long will take even longer.
        """
        cdef double overdue
        if self.in_flight < self.concurrency:
            return 0.0
        overdue = now - self.head_began - self.record_secs * self.in_flight_records / self.in_flight
        return self.in_flight_records * self.record_secs + (overdue if overdue > 0 else 0.0)

    cpdef bint has_room(self, double now) noexcept:
        """True if the window has room, and the task does not pause."""
        return self.in_flight < self.size and (self.code != BUSY or now >= self.paused_until)

    # Events

    cpdef PackDelivery open_delivery(self, object pack, Py_ssize_t record_count, double now):
        """Count a pack of `record_count` records as in flight, and return its delivery."""
        cdef PackDelivery delivery = PackDelivery.__new__(PackDelivery)
        if self.in_flight == 0:
            self.head_began = now
        self.in_flight += 1
        self.in_flight_records += record_count
        self.last_records = record_count
        delivery.window, delivery.pack, delivery.record_count, delivery.sent_at = self, pack, record_count, now
        delivery.is_outstanding = True
        delivery.filled_window = self.in_flight >= self.size
        self.outstanding[delivery] = None
        return delivery

    def note_ack(self, PackDelivery delivery not None, double now):
        """Count an ack of the task itself. False if the delivery was no longer in flight."""
        return self.take_ack(delivery, now)

    cdef bint take_ack(self, PackDelivery delivery, double now) except -1:
        cdef double service, passed = now - delivery.sent_at
        cdef bint first = self.acked_packs == 0
        if not self.take_back(delivery, now):
            return False
        # Tasks process in order. The time in the queue ends with the ack of the previous pack, and does not count.
        service = now - max(delivery.sent_at, self.last_ack)
        if service < 0:
            service = 0
        self.last_ack = max(self.last_ack, now)
        self.acked_packs += 1
        self.acked_records += delivery.record_count
        record_latency(self.service, service / delivery.record_count)
        self.failures_since_ack = 0
        self.record_secs += (service / delivery.record_count - self.record_secs) / (1 if first else SMOOTHING * self.concurrency)
        self.pack_service += (service - self.pack_service) / (1 if first else SMOOTHING * self.concurrency)
        if self.streak_failures:
            self.streak_failures = 0
            self.streak += 1
        if passed > self.threshold():
            self.code = SLOW
            self.shrink()
            return True
        if self.code != NORMAL:
            self.code = NORMAL
            self.growth_acks = 0
        if delivery.filled_window:      # acks say nothing about a larger window while the current one is not full
            self.growth_acks += 1
            if self.growth_acks >= self.size:
                self.growth_acks = 0
                if self.size < self.max_size:
                    self.size += 1
        return True

    def note_failure(self, PackDelivery delivery not None, double now):
        """Count a failure or timeout, make the task BUSY, and shrink its window. False if the delivery was no longer in flight."""
        if not self.take_back(delivery, now):
            return False
        self.resends += 1
        self.failures_since_ack += 1
        self.code = BUSY
        self.shrink()
        self.streak_failures += 1
        self.paused_until = now + pause_after(self.streak_failures)
        return True

    def note_repeated_failure(self, PackDelivery delivery not None, double now):
        """Count a failure of a single record that has failed before. False if the delivery was no longer in flight.

        Such a failure says nothing about the task, so state and window do not change. A BUSY task pauses again, but not longer than before.
        """
        if not self.take_back(delivery, now):
            return False
        self.resends += 1
        self.failures_since_ack += 1
        if self.code == BUSY:
            self.paused_until = max(self.paused_until, now + pause_after(self.streak_failures))
        return True

    def revoke_failure(self, Py_ssize_t streak, Py_ssize_t lost_size):
        """Undo a failure of this streak that a bad record caused. The window grows by `lost_size` again.

        The task is NORMAL again if the current streak has no other failure.
        """
        self.size = min(self.size + lost_size, self.max_size)
        if streak != self.streak or self.streak_failures == 0:
            return
        self.streak_failures -= 1
        if self.streak_failures == 0:
            self.code = NORMAL
            self.growth_acks = 0

    def note_stall(self, double now):
        """Make the task BUSY because it has acked nothing for too long."""
        self.code = BUSY
        self.streak += 1
        self.paused_until = now + LONGEST_PAUSE_SECS

    def call_back(self, PackDelivery delivery not None, double now):
        """Stop counting a delivery at a stalled task, so that its pack can go elsewhere. False if it was no longer in flight."""
        if not self.take_back(delivery, now):
            return False
        delivery.was_called_back = True
        self.resends += 1
        self.shrink()
        return True

    def release(self, PackDelivery delivery not None, double now):
        """Stop counting a delivery whose tree failed at another task. False if it was no longer in flight."""
        return self.take_back(delivery, now)

    cdef bint take_back(self, PackDelivery delivery, double now) except -1:
        """Remove a delivery from the deliveries in flight. False if it was not in flight."""
        if not delivery.is_outstanding:
            return False
        delivery.is_outstanding = False
        del self.outstanding[delivery]
        self.in_flight -= 1
        self.in_flight_records -= delivery.record_count
        self.head_began = now
        return True

    cdef void shrink(self) noexcept:
        self.growth_acks = 0
        if self.size > 1:
            self.size -= 1


cdef double pause_after(int failures) noexcept:
    # No pause after a single failure, because a bad record may be the cause.
    return 0.0 if failures < 2 else min(FIRST_PAUSE_SECS * 2.0 ** min(failures - 2, 20), LONGEST_PAUSE_SECS)


@cython.final
cdef class TaskChooser:
    """Chooses the task for the next pack by the least expected wait, or round robin if `by_turns`. `windows` ascend by task id."""

    def __init__(self, windows, *, bint by_turns=False):
        self.windows = tuple(windows)
        self.by_turns = by_turns
        self.turn = len(self.windows) - 1
        for index, each in enumerate(self.windows):
            (<TaskWindow?>each).index = index

    def note_sent(self, TaskWindow window not None):
        """Move the turn to the task after the one that got a pack."""
        self.advance_turn(window)

    cdef void advance_turn(self, TaskWindow window) noexcept:
        self.turn = window.index

    cpdef TaskWindow choose(self, double now, TaskWindow other_than=None):
        """Return the window of the task for the next pack. None if no task has room.

        A BUSY task is chosen only if no other task has room. `other_than` is never chosen. Among equal tasks the fastest one wins, then the
        next in turn.
        """
        cdef TaskWindow each, best = None
        cdef Py_ssize_t i, at, count = len(self.windows)
        cdef double wait, least = 0
        for i in range(1, count + 1):
            at = self.turn + i
            if at >= count:
                at -= count
            each = <TaskWindow>self.windows[at]
            if each is other_than or not each.has_room(now):
                continue
            wait = 0 if self.by_turns else each.expected_wait(now)
            if best is None or is_better(each, wait, best, least, self.by_turns):
                best, least = each, wait
        return best

    cpdef double next_probe(self, double now) noexcept:
        """Return the end of the next pause of a BUSY task. Infinity if no task pauses."""
        cdef TaskWindow each
        cdef double first = INFINITY
        for each in self.windows:
            if each.code == BUSY and each.in_flight < each.size and now < each.paused_until < first:
                first = each.paused_until
        return first

    cdef double next_stall(self, double now, double stall_secs, double next_check) noexcept:
        """Return the time at which the next task with work will count as stalled, at least `next_check`. Infinity if no task has work."""
        cdef TaskWindow each
        cdef double at, first = INFINITY
        for each in self.windows:
            if each.in_flight:
                at = max(each.head_began + stall_secs, next_check)
                if now < at < first:
                    first = at
        return first


cdef bint is_better(TaskWindow each, double wait, TaskWindow best, double least, bint by_turns) noexcept:
    if (each.code == BUSY) != (best.code == BUSY):
        return best.code == BUSY
    if by_turns or fabs(wait - least) < 1e-12:
        return not by_turns and each.record_secs < best.record_secs
    return wait < least


@cython.final
cdef class DonePrefix:
    """Cumulative ack, which is the highest record number up to which all records are done.

    Record numbers begin with 1. Ranges may arrive in any order. One entry is kept for each range above a gap.

    >>> prefix = DonePrefix()
    >>> for number in (1, 3, 4):
    ...     _ = prefix.mark_done(number, number, f"line {number}")
    >>> prefix.done, prefix.position
    (1, 'line 1')
    >>> prefix.mark_done(2, 2, "line 2")
    True
    >>> prefix.done, prefix.position
    (4, 'line 4')
    """

    def __cinit__(self):
        self.ahead = {}

    cpdef bint mark_done(self, long long first, long long last, object position) except -1:
        """Mark the records from `first` to `last` as done. `position` is the position of `last`. Return True if the prefix has grown."""
        if first != self.done + 1:
            self.ahead[first] = (last, position)
            return False
        self.done, self.position = last, position
        while self.ahead:
            following = self.ahead.pop(self.done + 1, None)
            if following is None:
                break
            self.done, self.position = following
        return True

    @property
    def ranges_ahead(self):
        """Number of ranges that wait for a gap below them to close."""
        return len(self.ahead)


@cython.final
cdef class Pack:
    """Records with successive numbers that are sent in one tuple."""

    def __init__(self, long long first, list entries not None, int tries=0):
        self.first, self.entries, self.tries = first, entries, tries

    @property
    def last(self):
        """The number of its last record."""
        return self.first + len(self.entries) - 1

    @property
    def position(self):
        """The position of its last record."""
        return self.entries[-1][0]

    def split_into_singles(self):
        """Return one pack for each record, with the same number of tries.

        If this pack is acked although it was called back, its parts are done too.
        """
        self.parts = [Pack(self.first + index, [entry], self.tries) for index, entry in enumerate(self.entries)]
        return self.parts

    def split_around(self, Py_ssize_t index):
        """Return the failed record at `index` as a pack, and the packs before and after it. This try counts only for the failed record."""
        cdef list entries = self.entries
        one = Pack(self.first + index, entries[index:index + 1], self.tries)
        others = [Pack(self.first, entries[:index], self.tries - 1), Pack(one.first + 1, entries[index + 1:], self.tries - 1)]
        others = [each for each in others if each.entries]
        self.parts = [one, *others]
        return one, others

    def __repr__(self):
        return f"<Pack {self.first}-{self.last}>"


cdef class FlowFeed:
    """Buffers, packs and sends the records of one spout task. Base of `FlowController`, which handles failures and stalls.

    A subclass has `check_for_stalls(now)`, `is_resend_due(now)` and `resend(now)`. `settings` is a `FlowSettings`. `size_of(record)`
    returns bytes. A task that acks nothing for `stall_secs` is stalled.
    """

    def __init__(self, TaskChooser chooser not None, settings, size_of, double stall_secs=INFINITY):
        self.chooser = chooser
        self.prefix = DonePrefix()
        self.buffer, self.resend_queue = deque(), []
        self.pack_records, self.pack_bytes, self.max_pending = settings.pack_records, settings.pack_bytes, settings.max_pending_records
        self.pack_secs, self.pack_age_secs = settings.pack_ms / 1000, settings.pack_age_ms / 1000
        self.size_of, self.stall_secs = size_of, stall_secs

    @property
    def pending_records(self):
        """Number of records that were sent and are beyond the done prefix."""
        return self.sent_records - self.prefix.done

    @property
    def is_full(self):
        """True if no more records may be sent beyond the done prefix."""
        return self.sent_records - self.prefix.done >= self.max_pending

    def records_wanted(self, double now):
        """Return the number of records that the next pack still needs. 0 if no pack could be sent now."""
        cdef TaskWindow window
        if now >= self.next_stall_check:
            self.check_for_stalls(now)
        if self.sent_records - self.prefix.done >= self.max_pending or self.source_ended or self.buffered_bytes >= self.pack_bytes:
            return 0
        window = self.chooser.choose(now)
        if window is None or (self.resend_queue and self.is_resend_due(now) and not self.is_turn_of_new(window)):
            return 0
        return max(0, self.most_records(window) - <Py_ssize_t>len(self.buffer))

    def offer_record(self, position, record, double now):
        """Append a record to the buffer. Return True if the buffer has the bytes of a pack, so it accepts no more.

        Raises the error of `size_of`. The record is then not in the buffer.
        """
        cdef Py_ssize_t size = min(max(<Py_ssize_t>self.size_of(record), 0), self.pack_bytes)
        self.buffer.append((position, record, now, size))
        self.buffered_bytes += size
        return self.buffered_bytes >= self.pack_bytes

    def next_delivery(self, double now):
        """Send the next pack to a task. Resends come first.

        None if there is nothing to send, no task has room, or the pack waits for more records.
        """
        cdef TaskWindow window
        cdef Py_ssize_t most
        cdef Pack pack
        cdef bint has_new = len(self.buffer) > 0 and self.sent_records - self.prefix.done < self.max_pending
        cdef bint is_due = len(self.resend_queue) > 0 and self.is_resend_due(now)
        if not (has_new or is_due):
            return None
        window = self.chooser.choose(now)
        if window is None:
            return None
        if is_due and not (has_new and self.is_turn_of_new(window)):
            return self.resend(now)
        most = self.most_records(window)
        if self.waits_to_fill(window, most, now):
            return None
        pack = Pack(self.sent_records + 1, self.take_entries(most))
        self.sent_records += len(pack.entries)
        return self.put_pack(pack, window, now)

    def next_wake(self, double now):
        """Return the time of the next try if no ack or failure arrives earlier. None if only an ack or a failure can help."""
        cdef double at, first = INFINITY
        if self.resend_queue:
            at = self.resend_queue[0][0]
            if now < at:
                first = at
        if self.resend_queue or self.buffer or not self.source_ended:
            first = min(first, self.chooser.next_probe(now))
        if self.buffer and self.sent_records - self.prefix.done < self.max_pending:
            at = <double>self.buffer[0][2] + self.pack_age_secs
            if now < at < first:
                first = at
        if self.stall_secs < INFINITY:
            first = min(first, self.chooser.next_stall(now, self.stall_secs, self.next_stall_check))
        return None if first == INFINITY else first

    cdef bint is_turn_of_new(self, TaskWindow window) noexcept:
        """Return True if only a BUSY task has room, and its last probe was a resend."""
        # Bad records are sent as resends. Without turns they would always be first, and keep the task BUSY.
        return window.code == BUSY and self.probed_with_resend

    cdef bint waits_to_fill(self, TaskWindow window, Py_ssize_t most, double now) except -1:
        """True while a pack should wait for more records: the task has work, and no buffered record is too old."""
        if self.source_ended or window.in_flight == 0 or len(self.buffer) >= most or self.buffered_bytes >= self.pack_bytes:
            return False
        return now < <double>self.buffer[0][2] + self.pack_age_secs

    cdef Py_ssize_t most_records(self, TaskWindow window) except -1:
        cdef Py_ssize_t most = window.records_in(self.pack_secs)
        cdef Py_ssize_t left = self.max_pending - <Py_ssize_t>(self.sent_records - self.prefix.done)
        if most > self.pack_records:
            most = self.pack_records
        return most if most < left else left

    cdef list take_entries(self, Py_ssize_t most):
        """Remove the oldest records from the buffer. At least one, at most `most`, and at most the bytes of one pack."""
        cdef list taken = []
        cdef Py_ssize_t size, total = 0
        cdef bint is_alone
        while self.buffer and len(taken) < most:
            size = self.buffer[0][3]
            is_alone = self.goes_alone is not None and self.goes_alone(self.buffer[0][0])
            if taken and (is_alone or total + size > self.pack_bytes):
                break
            total += size
            taken.append(self.buffer.popleft())
            if is_alone:
                break
        self.buffered_bytes -= total
        return taken

    def forget_records(self):
        """Forget all records, because the source is read again from an earlier position."""
        self.prefix = DonePrefix()
        self.buffer.clear()
        self.resend_queue.clear()
        self.sent_records = 0
        self.buffered_bytes = 0
        self.source_ended = False

    def send_pack(self, Pack pack not None, TaskWindow window not None, double now):
        """Send a pack to a task, and return the delivery."""
        return self.put_pack(pack, window, now)

    cdef PackDelivery put_pack(self, Pack pack, TaskWindow window, double now):
        self.chooser.advance_turn(window)
        if window.code == BUSY:
            self.probed_with_resend = pack.tries > 0
        return window.open_delivery(pack, len(pack.entries), now)

    def note_task_ack(self, PackDelivery delivery not None, double now):
        """Remove a pack that the task itself has acked from the window. The pack's tree may still be open downstream."""
        delivery.window.take_ack(delivery, now)

    def note_tree_ack(self, PackDelivery delivery not None, double now):
        """Mark a pack as done because its whole tree is acked, even if it was called back. True if the done prefix has grown."""
        delivery.window.take_ack(delivery, now)
        return self.mark_pack_done(delivery.pack)

    cdef bint mark_pack_done(self, Pack pack) except -1:
        cdef bint has_grown = False
        if pack.is_done:
            return False
        pack.is_done = True
        if pack.parts is not None:
            for part in pack.parts:
                has_grown |= self.mark_pack_done(part)
            return has_grown
        return self.prefix.mark_done(pack.first, pack.first + <Py_ssize_t>len(pack.entries) - 1, pack.entries[-1][0])
