"""One bolt task as its sender sees it (FC-2 to FC-5): the window, the state, the service time; and the choice among several.

Plain objects: they are given the time, in seconds of one monotonic clock, and what came back. docs/decisions/0006-flow.md has the
table of the states.
"""
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t
cimport cython

from _native.histogram cimport LatencyHistogram, record

cdef enum:
    PACKS_AHEAD = 1                 # beyond those that it works on: so that a task never waits for its sender
    SMOOTHING = 8                   # for each pack at once: the newest counts an eighth, as in TCP's smoothed round trip

cdef double FIRST_PAUSE_SECS = 0.010
cdef double LONGEST_PAUSE_SECS = 1.0
cdef tuple STATE_NAMES = ("NORMAL", "SLOW", "BUSY")


@cython.final
@cython.freelist(256)
cdef class Sending:
    """One pack on its way to one task, until that has settled it; the message id of its tuple."""

    def __repr__(self):
        return f"<Sending of {self.pack!r} to task {self.consumer.task_id}>"


@cython.final
cdef class AdaptiveFlowConsumer:
    """A bolt task's window: `window` packs may be there at once, of which it works on `width` at a time.

    `threshold_secs` 0: the time of `width` + 1 packs. `pack_secs`: the service time that a pack aims at.
    """

    def __init__(self, int32_t task_id, *, Py_ssize_t initial_window, Py_ssize_t max_window, double threshold_secs, double pack_secs,
                 Py_ssize_t width=1):
        self.task_id, self.width = task_id, width
        self.window, self.max_window = initial_window, max_window
        self.fixed_threshold, self.pack_secs = threshold_secs, pack_secs
        self.service = LatencyHistogram()
        self.there = {}

    # What it says

    @property
    def state(self):
        return STATE_NAMES[self.code]

    @property
    def service_secs(self):
        """Smoothed, of one record; None before the first ack."""
        return self.record_secs if self.settled_packs else None

    @property
    def threshold_secs(self):
        """A pack that takes longer makes it SLOW."""
        return self.threshold()

    cdef double threshold(self) noexcept:
        if self.fixed_threshold > 0:
            return self.fixed_threshold
        return (self.width + PACKS_AHEAD) * max(self.pack_secs, self.pack_service)

    def expected_wait(self, double now):
        """Seconds until it would begin with what is sent to it now."""
        return self.wait(now)

    def has_room_at(self, double now):
        return self.has_room(now)

    def records_for(self, double secs):
        """How many records it does in so many seconds; 1 before its first ack, for a BUSY one, and at least."""
        return self.records_in(secs)

    cdef Py_ssize_t records_in(self, double secs) noexcept:
        if self.settled_packs == 0 or self.code == BUSY or self.record_secs >= secs:
            return 1
        return <Py_ssize_t>min(secs / max(self.record_secs, 1e-9), 1e9)

    def sendings(self):
        """Those that are at the task, the oldest first."""
        return list(self.there)

    cdef double wait(self, double now) noexcept:
        """The queued work, and what its head has taken over its expected time: what has lasted long will last."""
        cdef double over
        if self.in_flight < self.width:
            return 0.0
        over = now - self.head_began - self.record_secs * self.in_flight_records / self.in_flight
        return self.in_flight_records * self.record_secs + (over if over > 0 else 0.0)

    cdef bint has_room(self, double now) noexcept:
        return self.in_flight < self.window and (self.code != BUSY or now >= self.paused_until)

    # What happens to it

    cpdef Sending send(self, object pack, Py_ssize_t records, double now):
        """A pack of so many records goes to the task; return its Sending."""
        cdef Sending sending = Sending.__new__(Sending)
        if self.in_flight == 0:
            self.head_began = now
        self.in_flight += 1
        self.in_flight_records += records
        self.last_records = records
        sending.consumer, sending.pack, sending.records, sending.sent_at = self, pack, records, now
        sending.is_outstanding = True
        sending.filled = self.in_flight >= self.window
        self.there[sending] = None
        return sending

    def settled(self, Sending sending not None, double now):
        """The task has acked it; False where it was called back before."""
        return self.settle(sending, now)

    cdef bint settle(self, Sending sending, double now) except -1:
        cdef double service, passed = now - sending.sent_at
        cdef bint first = self.settled_packs == 0
        if not self.take_back(sending, now):
            return False
        service = now - max(sending.sent_at, self.last_settle)
        if service < 0:
            service = 0
        self.last_settle = max(self.last_settle, now)
        self.settled_packs += 1
        self.settled_records += sending.records
        record(self.service, service / sending.records)
        self.failed_since_ack = 0
        self.record_secs += (service / sending.records - self.record_secs) / (1 if first else SMOOTHING * self.width)
        self.pack_service += (service - self.pack_service) / (1 if first else SMOOTHING * self.width)
        if self.failures:
            self.failures = 0
            self.row += 1
        if passed > self.threshold():
            self.code = SLOW
            self.shrink()
            return True
        if self.code != NORMAL:
            self.code = NORMAL
            self.credit = 0
        if sending.filled:
            self.credit += 1
            if self.credit >= self.window:
                self.credit = 0
                if self.window < self.max_window:
                    self.window += 1
        return True

    def failed(self, Sending sending not None, double now):
        """It failed there, or timed out there; False where it was called back before."""
        if not self.take_back(sending, now):
            return False
        self.resends += 1
        self.failed_since_ack += 1
        self.code = BUSY
        self.shrink()
        self.failures += 1
        self.paused_until = now + pause_after(self.failures)
        return True

    def failed_again(self, Sending sending not None, double now):
        """A record failed there that has failed before, alone: that says nothing of the task. A BUSY one pauses as long as before."""
        if not self.take_back(sending, now):
            return False
        self.resends += 1
        self.failed_since_ack += 1
        if self.code == BUSY:
            self.paused_until = max(self.paused_until, now + pause_after(self.failures))
        return True

    def excused(self, Py_ssize_t row, Py_ssize_t places):
        """A failure in that row was a record's doing: it gets the places back that it lost by it, and where it was the only one, it is BUSY
        no more."""
        self.window = min(self.window + places, self.max_window)
        if row != self.row or self.failures == 0:
            return
        self.failures -= 1
        if self.failures == 0:
            self.code = NORMAL
            self.credit = 0

    def stalled(self, double now):
        """It has acked nothing for too long: BUSY."""
        self.code = BUSY
        self.row += 1
        self.paused_until = now + LONGEST_PAUSE_SECS

    def called_back(self, Sending sending not None, double now):
        """It waits at a task that stands still, and goes to another one; False where it is settled."""
        if not self.take_back(sending, now):
            return False
        sending.was_called_back = True
        self.resends += 1
        self.shrink()
        return True

    def released(self, Sending sending not None, double now):
        """Its tree ended by another task's doing, before this one settled it; False where it did."""
        return self.take_back(sending, now)

    cdef bint take_back(self, Sending sending, double now) except -1:
        """It is no longer at the task; False where it was not counted there any more."""
        if not sending.is_outstanding:
            return False
        sending.is_outstanding = False
        del self.there[sending]
        self.in_flight -= 1
        self.in_flight_records -= sending.records
        self.head_began = now
        return True

    cdef void shrink(self) noexcept:
        self.credit = 0
        if self.window > 1:
            self.window -= 1


cdef double pause_after(int failures) noexcept:
    """One alone is a bad record's doing as likely as the task's."""
    return 0.0 if failures < 2 else min(FIRST_PAUSE_SECS * 2.0 ** min(failures - 2, 20), LONGEST_PAUSE_SECS)


@cython.final
cdef class FlowTasks:
    """The tasks that a sender may choose from, by their ids ascending. `by_turns`: round robin, else least expected wait."""

    def __init__(self, consumers, *, bint by_turns=False):
        self.consumers = tuple(consumers)
        self.by_turns = by_turns
        self.turn = len(self.consumers) - 1
        for place, each in enumerate(self.consumers):
            (<AdaptiveFlowConsumer?>each).place = place

    def sent_to(self, AdaptiveFlowConsumer consumer not None):
        """The next in turn is the one behind it."""
        self.went_to(consumer)

    cdef void went_to(self, AdaptiveFlowConsumer consumer) noexcept:
        self.turn = consumer.place

    cpdef AdaptiveFlowConsumer choose(self, double now, AdaptiveFlowConsumer other_than=None):
        """The task for the next pack among those with room, a BUSY one only if no other has any; None: nobody has room.

        `other_than` is not chosen. Among equals the faster one, then the next in turn.
        """
        cdef AdaptiveFlowConsumer each, best = None
        cdef Py_ssize_t i, at, count = len(self.consumers)
        cdef double wait, least = 0
        for i in range(1, count + 1):
            at = self.turn + i
            if at >= count:
                at -= count
            each = <AdaptiveFlowConsumer>self.consumers[at]
            if each is other_than or not each.has_room(now):
                continue
            wait = 0 if self.by_turns else each.wait(now)
            if best is None or is_better(each, wait, best, least, self.by_turns):
                best, least = each, wait
        return best

    def next_probe(self):
        """When the first of those that pause may be sent something again; None where none pauses."""
        cdef double at = self.probe_after(-INFINITY)
        return None if at == INFINITY else at

    cdef double probe_after(self, double now) noexcept:
        """When the next of those that pause may be sent something; infinite where none pauses."""
        cdef AdaptiveFlowConsumer each
        cdef double first = INFINITY
        for each in self.consumers:
            if each.code == BUSY and each.in_flight < each.window and now < each.paused_until < first:
                first = each.paused_until
        return first

    cdef double stall_after(self, double now, double stall_secs, double look) noexcept:
        """When the next of those that have work counts as standing still, and not before a look is due; infinite where none has."""
        cdef AdaptiveFlowConsumer each
        cdef double at, first = INFINITY
        for each in self.consumers:
            if each.in_flight:
                at = max(each.head_began + stall_secs, look)
                if now < at < first:
                    first = at
        return first


cdef bint is_better(AdaptiveFlowConsumer each, double wait, AdaptiveFlowConsumer best, double least, bint by_turns) noexcept:
    if (each.code == BUSY) != (best.code == BUSY):
        return best.code == BUSY
    if by_turns or fabs(wait - least) < 1e-12:
        return not by_turns and each.record_secs < best.record_secs
    return wait < least
