"""What a flow-control spout does for every pack and every record: buffer, pack, send, settle, ack (FC-1, FC-6).

Plain objects: they are given the time and what came back. What is rare (fails, resends, stalls) is the controller's, in Python.
"""
from collections import deque as _deque

cimport cython
from libc.math cimport INFINITY

from _native.flow_consumer cimport BUSY, AdaptiveFlowConsumer, FlowTasks, Sending

cdef object deque = _deque


@cython.final
cdef class DonePrefix:
    """The cumulative ack: ranges of record numbers that are done, in any order; holds one entry for each range above a gap.

    Numbers begin with 1.

    >>> prefix = DonePrefix()
    >>> for number in (1, 3, 4):
    ...     _ = prefix.add(number, number, f"line {number}")
    >>> prefix.done, prefix.position
    (1, 'line 1')
    >>> prefix.add(2, 2, "line 2")
    True
    >>> prefix.done, prefix.position
    (4, 'line 4')
    """

    def __cinit__(self):
        self.ahead = {}

    cpdef bint add(self, long long first, long long last, object position) except -1:
        """Note that the records from first to last are done, where last stands at position; tell whether the prefix has grown."""
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
        """How many ranges wait for a gap below them to close."""
        return len(self.ahead)


@cython.final
cdef class Pack:
    """Records of successive numbers, until all of them are done."""

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

    def singles(self):
        """Split it: each record as a pack of its own, tried as often as this one, and done where this one is done all the same."""
        self.parts = [Pack(self.first + index, [entry], self.tries) for index, entry in enumerate(self.entries)]
        return self.parts

    def split_around(self, Py_ssize_t index):
        """Split it: the record at this place, which has failed, and the packs before it and behind it, which have not."""
        cdef list entries = self.entries
        one = Pack(self.first + index, entries[index:index + 1], self.tries)
        others = [Pack(self.first, entries[:index], self.tries - 1), Pack(one.first + 1, entries[index + 1:], self.tries - 1)]
        others = [each for each in others if each.entries]
        self.parts = [one, *others]
        return one, others

    def __repr__(self):
        return f"<Pack {self.first}-{self.last}>"


cdef class FlowFeed:
    """The records between the producer and the tasks; base of `FlowController`, which adds what is rare.

    A subclass has `look_for_stalls(now)`, `is_resend_due(now)` and `resend(now)`. `limits` has `pack_records`, `pack_bytes`,
    `max_pending_records`, `pack_ms` and `pack_age_ms` (`FlowSettings`); `size_of(record)` gives bytes; a task that acks nothing for
    `stall_secs` stands still.
    """

    def __init__(self, FlowTasks tasks not None, limits, size_of, double stall_secs=INFINITY):
        self.tasks = tasks
        self.prefix = DonePrefix()
        self.buffer, self.resends = deque(), []
        self.pack_records, self.pack_bytes, self.max_pending = limits.pack_records, limits.pack_bytes, limits.max_pending_records
        self.pack_secs, self.pack_age_secs = limits.pack_ms / 1000, limits.pack_age_ms / 1000
        self.size_of, self.stall_secs = size_of, stall_secs

    @property
    def pending(self):
        """Records that were sent, and are beyond the done prefix."""
        return self.sent - self.prefix.done

    @property
    def is_full(self):
        """True when no more records may be sent beyond the done prefix."""
        return self.sent - self.prefix.done >= self.max_pending

    def wanted(self, double now):
        """How many more records the next pack could take; 0 where none could be sent now."""
        cdef AdaptiveFlowConsumer consumer
        if now >= self.next_stall_look:
            self.look_for_stalls(now)
        if self.sent - self.prefix.done >= self.max_pending or self.is_last or self.buffered_bytes >= self.pack_bytes:
            return 0
        consumer = self.tasks.choose(now)
        if consumer is None or (self.resends and self.is_resend_due(now) and not self.is_turn_of_new(consumer)):
            return 0
        return max(0, self.most_records(consumer) - <Py_ssize_t>len(self.buffer))

    def offer(self, position, record, double now):
        """Take a record in, behind those that were taken before; True where their bytes fill a pack, and no more is wanted.

        Raises what `size_of` raises, and has not taken it in.
        """
        cdef Py_ssize_t size = min(max(<Py_ssize_t>self.size_of(record), 0), self.pack_bytes)
        self.buffer.append((position, record, now, size))
        self.buffered_bytes += size
        return self.buffered_bytes >= self.pack_bytes

    def next_send(self, double now):
        """The next pack on its way to its task; None where nothing can be sent, or a pack waits to be filled."""
        cdef AdaptiveFlowConsumer consumer
        cdef Py_ssize_t most
        cdef Pack pack
        cdef bint has_new = len(self.buffer) > 0 and self.sent - self.prefix.done < self.max_pending
        cdef bint is_due = len(self.resends) > 0 and self.is_resend_due(now)
        if not (has_new or is_due):
            return None
        consumer = self.tasks.choose(now)
        if consumer is None:
            return None
        if is_due and not (has_new and self.is_turn_of_new(consumer)):
            return self.resend(now)
        most = self.most_records(consumer)
        if self.waits_to_fill(consumer, most, now):
            return None
        pack = Pack(self.sent + 1, self.take_entries(most))
        self.sent += len(pack.entries)
        return self.put(pack, consumer, now)

    def look_at(self, double now):
        """When something may be sent though nothing came back; None: not before something does."""
        cdef double at, first = INFINITY
        if self.resends:
            at = self.resends[0][0]
            if now < at:
                first = at
        if self.resends or self.buffer or not self.is_last:
            first = min(first, self.tasks.probe_after(now))
        if self.buffer and self.sent - self.prefix.done < self.max_pending:
            at = <double>self.buffer[0][2] + self.pack_age_secs
            if now < at < first:
                first = at
        if self.stall_secs < INFINITY:
            first = min(first, self.tasks.stall_after(now, self.stall_secs, self.next_stall_look))
        return None if first == INFINITY else first

    cdef bint is_turn_of_new(self, AdaptiveFlowConsumer consumer) noexcept:
        """True where only a BUSY task has room, and was sent what had failed: bad records alone would keep it BUSY."""
        return consumer.code == BUSY and self.probed_again

    cdef bint waits_to_fill(self, AdaptiveFlowConsumer consumer, Py_ssize_t most, double now) except -1:
        """True while a pack had better grow: the task has work, and no record of it is old."""
        if self.is_last or consumer.in_flight == 0 or len(self.buffer) >= most or self.buffered_bytes >= self.pack_bytes:
            return False
        return now < <double>self.buffer[0][2] + self.pack_age_secs

    cdef Py_ssize_t most_records(self, AdaptiveFlowConsumer consumer) except -1:
        cdef Py_ssize_t most = consumer.records_in(self.pack_secs), left = self.max_pending - <Py_ssize_t>(self.sent - self.prefix.done)
        if most > self.pack_records:
            most = self.pack_records
        return most if most < left else left

    cdef list take_entries(self, Py_ssize_t most):
        """The next records, up to so many, and up to the bytes of a pack; one at least."""
        cdef list taken = []
        cdef Py_ssize_t size, total = 0
        while self.buffer and len(taken) < most:
            size = self.buffer[0][3]
            if taken and total + size > self.pack_bytes:
                break
            total += size
            taken.append(self.buffer.popleft())
        self.buffered_bytes -= total
        return taken

    def send(self, Pack pack not None, AdaptiveFlowConsumer consumer not None, double now):
        """Put a pack on its way; `put` for those who are not compiled."""
        return self.put(pack, consumer, now)

    cdef Sending put(self, Pack pack, AdaptiveFlowConsumer consumer, double now):
        self.tasks.went_to(consumer)
        if consumer.code == BUSY:
            self.probed_again = pack.tries > 0
        return consumer.send(pack, len(pack.entries), now)

    def settled(self, Sending sending not None, double now):
        """The task has acked its part; what is downstream may still be open."""
        sending.consumer.settle(sending, now)

    def acked(self, Sending sending not None, double now):
        """The whole tree is done, called back or not; tell whether the done prefix has grown."""
        sending.consumer.settle(sending, now)
        return self.note_done(sending.pack)

    cdef bint note_done(self, Pack pack) except -1:
        cdef bint has_grown = False
        if pack.is_done:
            return False
        pack.is_done = True
        if pack.parts is not None:
            for part in pack.parts:
                has_grown |= self.note_done(part)
            return has_grown
        return self.prefix.add(pack.first, pack.first + <Py_ssize_t>len(pack.entries) - 1, pack.entries[-1][0])
